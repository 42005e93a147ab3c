#include "perf/collectives/collective.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tutti::perf {

const std::vector<CollectiveTraits>& all_collectives() {
  using enum Collective;
  using enum Extent;
  using enum BusRule;
  // name, program, send, recv, bus, reduces, has_root, in_place, of_pairs
  static const std::vector<CollectiveTraits> collectives = {
      {kAllReduce, "all_reduce", "all_reduce_perf", kCount, kCount, kTwiceOthers, true, false, true,
       false},
      {kAllGather, "all_gather", "all_gather_perf", kCount, kPerRank, kOthers, false, false, true,
       false},
      {kReduceScatter, "reduce_scatter", "reduce_scatter_perf", kPerRank, kCount, kOthers, true,
       false, true, false},
      {kBroadcast, "broadcast", "broadcast_perf", kCount, kCount, kOnce, false, true, true, false},
      {kAllToAll, "all_to_all", "alltoall_perf", kPerRank, kPerRank, kOthers, false, false, true,
       false},
      {kBarrier, "barrier", "barrier_perf", kNothing, kNothing, kOnce, false, false, false, false},
      {kSendRecv, "sendrecv", "sendrecv_perf", kCount, kCount, kOnce, false, false, false, true},
      {kHypercube, "hypercube", "hypercube_perf", kCount, kPerRank, kOnce, false, false, true,
       true},
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

Shape shape_of(Collective id, size_t elements, int ranks) {
  const CollectiveTraits& traits = traits_of(id);
  const bool by_rank = traits.send == Extent::kPerRank || traits.recv == Extent::kPerRank;
  const auto blocks = static_cast<size_t>(ranks);
  const size_t count = by_rank ? elements / blocks : elements;
  const auto in_buffer = [&](Extent extent) {
    return extent == Extent::kNothing ? 0 : extent == Extent::kCount ? count : count * blocks;
  };
  const bool has_buffers = traits.send != Extent::kNothing || traits.recv != Extent::kNothing;
  return {has_buffers ? count : 0, in_buffer(traits.send), in_buffer(traits.recv)};
}

InPlaceOffsets in_place_offsets(Collective id, const Shape& shape, int rank) {
  const CollectiveTraits& traits = traits_of(id);
  const size_t own_block = static_cast<size_t>(rank) * shape.count;
  if (traits.send == traits.recv) return {0, 0};
  if (traits.recv == Extent::kPerRank) return {own_block, 0};
  return {0, own_block};
}

bool reads_input(Collective id, const Place& place) {
  return id != Collective::kBroadcast || place.rank == place.root;
}

bool writes_output(Collective, const Place&) { return true; }

double algorithm_elements(Collective id, const Shape& shape, int ranks) {
  if (id == Collective::kHypercube) return static_cast<double>(shape.count) * (ranks - 1);
  return static_cast<double>(std::max(shape.send_count, shape.recv_count));
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

/// Block `index` of every rank's input, in rank order.
std::vector<Block> one_of_each(const Shape& shape, int index, int ranks) {
  std::vector<Block> blocks;
  const size_t first = static_cast<size_t>(index) * shape.count;
  for (int source = 0; source < ranks; ++source) blocks.push_back({source, first, shape.count});
  return blocks;
}

}  // namespace

std::vector<Block> expected_blocks(Collective id, const Shape& shape, const Place& place) {
  const size_t own_block = static_cast<size_t>(place.rank) * shape.count;
  switch (id) {
    case Collective::kAllReduce:
      return {{Block::kEveryRank, 0, shape.count}};
    case Collective::kReduceScatter:
      return {{Block::kEveryRank, own_block, shape.count}};
    case Collective::kBroadcast:
      return {{place.root, 0, shape.count}};
    case Collective::kSendRecv:
      return {{(place.rank + place.ranks - 1) % place.ranks, 0, shape.count}};
    case Collective::kAllGather:
    case Collective::kHypercube:
      return one_of_each(shape, 0, place.ranks);
    case Collective::kAllToAll:
      return one_of_each(shape, place.rank, place.ranks);
    case Collective::kBarrier:
      return {};
  }
  return {};
}

}  // namespace tutti::perf
