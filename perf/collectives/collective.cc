#include "perf/collectives/collective.h"

#include <stdexcept>
#include <string>

namespace tutti::perf {

const std::vector<CollectiveTraits>& all_collectives() {
  static const std::vector<CollectiveTraits> collectives = {
      {Collective::kAllReduce, "all_reduce", "all_reduce_perf", true, false, true},
      {Collective::kAllGather, "all_gather", "all_gather_perf", false, false, true},
      {Collective::kReduceScatter, "reduce_scatter", "reduce_scatter_perf", true, false, true},
      {Collective::kBroadcast, "broadcast", "broadcast_perf", false, true, true},
      {Collective::kAllToAll, "all_to_all", "alltoall_perf", false, false, true},
      {Collective::kBarrier, "barrier", "barrier_perf", false, false, false},
      {Collective::kSendRecv, "sendrecv", "sendrecv_perf", false, false, false},
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
    const bool is_name = wanted == without_underscores(traits.name);
    if (is_name || wanted == without_underscores(traits.program)) return &traits;
  }
  return nullptr;
}

Shape shape_of(Collective id, size_t elements, int ranks) {
  const size_t per_rank = elements / static_cast<size_t>(ranks);
  const size_t total = per_rank * static_cast<size_t>(ranks);
  switch (id) {
    case Collective::kAllGather: return {per_rank, per_rank, total};
    case Collective::kReduceScatter: return {per_rank, total, per_rank};
    case Collective::kAllToAll: return {per_rank, total, total};
    case Collective::kBarrier: return {0, 0, 0};
    default: return {elements, elements, elements};
  }
}

InPlaceOffsets in_place_offsets(Collective id, const Shape& shape, int rank) {
  const size_t own_block = static_cast<size_t>(rank) * shape.count;
  switch (id) {
    case Collective::kAllGather: return {own_block, 0};
    case Collective::kReduceScatter: return {0, own_block};
    default: return {0, 0};
  }
}

double bus_factor(Collective id, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (id) {
    case Collective::kAllReduce: return 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll: return others;
    default: return 1;
  }
}

std::vector<Block> expected_blocks(Collective id, const Shape& shape, const Place& place) {
  const size_t own_block = static_cast<size_t>(place.rank) * shape.count;
  std::vector<Block> blocks;
  switch (id) {
    case Collective::kAllReduce: return {{Block::kEveryRank, 0, shape.count}};
    case Collective::kReduceScatter: return {{Block::kEveryRank, own_block, shape.count}};
    case Collective::kBroadcast: return {{place.root, 0, shape.count}};
    case Collective::kSendRecv:
      return {{(place.rank + place.ranks - 1) % place.ranks, 0, shape.count}};
    case Collective::kAllGather:
      for (int source = 0; source < place.ranks; ++source) {
        blocks.push_back({source, 0, shape.count});
      }
      return blocks;
    case Collective::kAllToAll:
      for (int source = 0; source < place.ranks; ++source) {
        blocks.push_back({source, own_block, shape.count});
      }
      return blocks;
    case Collective::kBarrier: return {};
  }
  return blocks;
}

}  // namespace tutti::perf
