#include "perf/collectives/collective.h"

#include <numeric>
#include <stdexcept>
#include <string>

namespace tutti::perf {

const std::vector<CollectiveTraits>& all_collectives() {
  using enum Collective;
  using enum Extent;
  using enum BusRule;
  using enum Trait;
  // collective, name, program, send, recv, bus, traits
  static const std::vector<CollectiveTraits> collectives = {
      {kAllReduce, "all_reduce", "all_reduce_perf", kCount, kCount, kTwiceOthers,
       kReduces | kInPlace},
      {kAllGather, "all_gather", "all_gather_perf", kCount, kPerRank, kOthers, kInPlace},
      {kReduceScatter, "reduce_scatter", "reduce_scatter_perf", kPerRank, kCount, kOthers,
       kReduces | kInPlace},
      {kBroadcast, "broadcast", "broadcast_perf", kCount, kCount, kOnce, kHasRoot | kInPlace},
      {kReduce, "reduce", "reduce_perf", kCount, kCount, kOnce, kReduces | kHasRoot | kInPlace},
      {kGather, "gather", "gather_perf", kCount, kPerRank, kOthers, kHasRoot | kInPlace},
      {kScatter, "scatter", "scatter_perf", kPerRank, kCount, kOthers, kHasRoot | kInPlace},
      {kAllToAll, "all_to_all", "alltoall_perf", kPerRank, kPerRank, kOthers, kInPlace},
      {kAllGatherV, "all_gather_v", "all_gather_v_perf", kCount, kPerRank, kOthers,
       kInPlace | kUneven},
      {kReduceScatterV, "reduce_scatter_v", "reduce_scatter_v_perf", kPerRank, kCount, kOthers,
       kReduces | kInPlace | kUneven},
      {kAllToAllV, "all_to_all_v", "alltoallv_perf", kPerRank, kPerRank, kOthers, kUneven},
      {kBarrier, "barrier", "barrier_perf", kNothing, kNothing, kOnce, {}},
      {kSendRecv, "sendrecv", "sendrecv_perf", kCount, kCount, kOnce, kOfPairs},
      {kHypercube, "hypercube", "hypercube_perf", kCount, kPerRank, kOnce, kInPlace | kOfPairs},
  };
  return collectives;
}

const CollectiveTraits& traits_of(Collective id) {
  for (const CollectiveTraits& traits : all_collectives()) {
    if (traits.id == id) return traits;
  }
  throw std::logic_error("a collective without traits");
}

const CollectiveTraits* find_collective(std::string_view name) {
  const auto without_underscores = [](std::string_view text) {
    std::string letters;
    for (const char letter : text) {
      if (letter != '_') letters += letter;
    }
    return letters;
  };
  const std::string wanted = without_underscores(name);
  for (const CollectiveTraits& traits : all_collectives()) {
    const std::string plain = without_underscores(traits.name);
    const bool is_name = wanted == plain || wanted == plain + "perf";
    if (is_name || wanted == without_underscores(traits.program)) return &traits;
  }
  return nullptr;
}

namespace {

size_t sum_before(const std::vector<size_t>& blocks, int end) {
  return std::accumulate(blocks.begin(), blocks.begin() + end, size_t{0});
}

size_t sum_of(const std::vector<size_t>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), size_t{0});
}

/// The blocks of one call: what rank `from` holds for, or has from, rank `to`. Uneven ones that all
/// ranks have alike belong to `to`.
class Blocks {
 public:
  Blocks(const CollectiveTraits& traits, size_t elements, int ranks, const Traffic& traffic)
      : traits_(traits), elements_(elements), ranks_(ranks), traffic_(traffic) {}

  size_t between(int from, int to) const {
    if (!traits_.has(Trait::kUneven)) return elements_ / static_cast<size_t>(ranks_);
    if (is_between_pairs()) return traffic_.between(elements_, from, to, ranks_);
    return uneven_block(elements_, to, ranks_);
  }
  std::vector<size_t> from(int rank) const {
    std::vector<size_t> blocks;
    for (int to = 0; to < ranks_; ++to) blocks.push_back(between(rank, to));
    return blocks;
  }
  std::vector<size_t> to(int rank) const {
    std::vector<size_t> blocks;
    for (int from = 0; from < ranks_; ++from) blocks.push_back(between(from, rank));
    return blocks;
  }
  /// The largest buffer of any rank, in elements.
  size_t largest() const {
    if (traits_.has(Trait::kUneven)) {
      return is_between_pairs() ? traffic_.largest(elements_, ranks_) : sum_of(from(0));
    }
    return between(0, 0) * static_cast<size_t>(ranks_);
  }

 private:
  bool is_between_pairs() const { return traits_.send == traits_.recv; }

  const CollectiveTraits& traits_;
  size_t elements_;
  int ranks_;
  const Traffic& traffic_;
};

}  // namespace

Shape shape_of(Collective id, size_t elements, const Place& place, const Traffic& traffic) {
  const CollectiveTraits& traits = traits_of(id);
  const Blocks blocks(traits, elements, place.ranks, traffic);
  Shape shape;
  if (traits.send == Extent::kNothing && traits.recv == Extent::kNothing) return shape;
  const bool by_rank = traits.send == Extent::kPerRank || traits.recv == Extent::kPerRank;
  shape.count = by_rank ? elements / static_cast<size_t>(place.ranks) : elements;
  const size_t own_block = by_rank ? blocks.between(place.rank, place.rank) : elements;
  shape.send_count = shape.recv_count = own_block;
  if (traits.send == Extent::kPerRank) {
    shape.send_blocks = blocks.from(place.rank);
    shape.send_count = sum_of(shape.send_blocks);
  }
  if (traits.recv == Extent::kPerRank) {
    const bool from_all = traits.send == Extent::kPerRank;
    shape.recv_blocks = from_all ? blocks.to(place.rank) : blocks.from(place.rank);
    shape.recv_count = sum_of(shape.recv_blocks);
  }
  shape.largest_count = by_rank ? blocks.largest() : elements;
  return shape;
}

InPlaceOffsets in_place_offsets(Collective id, const Shape& shape, int rank) {
  const CollectiveTraits& traits = traits_of(id);
  if (traits.send == traits.recv) return {0, 0};
  if (traits.recv == Extent::kPerRank) return {sum_before(shape.recv_blocks, rank), 0};
  return {0, sum_before(shape.send_blocks, rank)};
}

bool reads_input(Collective id, const Place& place) {
  const bool root_only = id == Collective::kBroadcast || id == Collective::kScatter;
  return !root_only || place.rank == place.root;
}

double algorithm_elements(Collective id, const Shape& shape, int ranks) {
  if (id == Collective::kHypercube) return static_cast<double>(shape.count) * (ranks - 1);
  return static_cast<double>(shape.largest_count);
}

double bus_factor(Collective id, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (traits_of(id).bus) {
    case BusRule::kOnce:
      return 1;
    case BusRule::kOthers:
      return others;
    case BusRule::kTwiceOthers:
      return 2 * others;
  }
  return 1;
}

namespace {

/// Every rank's whole input.
std::vector<Block> one_of_each(const Shape& shape) {
  std::vector<Block> blocks;
  int source = 0;
  for (const size_t count : shape.recv_blocks) blocks.push_back({source++, 0, count});
  return blocks;
}

std::vector<Block> from_all_to_me(const Blocks& all, const Place& place) {
  std::vector<Block> blocks;
  for (int source = 0; source < place.ranks; ++source) {
    const std::vector<size_t> theirs = all.from(source);
    const auto mine = static_cast<size_t>(place.rank);
    blocks.push_back({source, sum_before(theirs, place.rank), theirs[mine]});
  }
  return blocks;
}

}  // namespace

std::vector<Block> expected_blocks(Collective id, size_t elements, const Place& place,
                                   const Traffic& traffic) {
  const Shape shape = shape_of(id, elements, place, traffic);
  const bool root_only = id == Collective::kReduce || id == Collective::kGather;
  if (root_only && place.rank != place.root) return {};
  switch (id) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return {{Block::kEveryRank, 0, shape.count}};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
      return {{Block::kEveryRank, sum_before(shape.send_blocks, place.rank), shape.recv_count}};
    case Collective::kBroadcast:
      return {{place.root, 0, shape.count}};
    case Collective::kScatter:
      return {{place.root, sum_before(shape.send_blocks, place.rank), shape.recv_count}};
    case Collective::kSendRecv:
      return {{(place.rank + place.ranks - 1) % place.ranks, 0, shape.count}};
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather:
    case Collective::kHypercube:
      return one_of_each(shape);
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return from_all_to_me({traits_of(id), elements, place.ranks, traffic}, place);
    case Collective::kBarrier:
      return {};
  }
  return {};
}

}  // namespace tutti::perf
