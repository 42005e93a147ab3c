#include "algorithms/patterns/exchange.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tutti::algorithms::patterns {

using schedule::Block;
using schedule::MoveSource;

int doubling_rounds(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

std::vector<int> others(int ranks, int rank) {
  std::vector<int> peers;
  for (int hops = 1; hops < ranks; ++hops) peers.push_back((rank + hops) % ranks);
  return peers;
}

std::vector<MoveSource> in_rank_order(std::span<const int> members, int rank, const Block& mine) {
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<MoveSource> sources;
  for (int member : sorted) {
    sources.push_back(member == rank ? MoveSource::local(mine) : MoveSource::message(member));
  }
  return sources;
}

std::vector<MoveSource> in_rank_order(int ranks, int rank, const Block& mine) {
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return in_rank_order(members, rank, mine);
}

schedule::Cost balanced(int ranks, schedule::Cost cost) {
  cost.moved = schedule::sum(cost.published, cost.bytes);
  cost.work = schedule::Fraction::of(cost.moved.num * static_cast<uint64_t>(ranks), cost.moved.den);
  return cost;
}

schedule::Cost one_round(int ranks, int published) {
  return balanced(ranks, rooted_round(ranks, published));
}

schedule::Cost rooted_round(int ranks, int published) {
  if (ranks == 1) return {};
  const auto peers = static_cast<uint32_t>(ranks - 1);
  return {.depth = 1,
          .messages = peers,
          .bytes = schedule::Fraction::of(peers, 1),
          .published = schedule::Fraction::of(static_cast<uint64_t>(published), 1),
          .moved = schedule::Fraction::of(peers, 1),
          .work = schedule::Fraction::of(2 * uint64_t{peers}, 1),
          .scratch = {}};
}

schedule::Cost in_one_fold(int ranks, schedule::Cost cost) {
  cost.widest = std::max(cost.widest, static_cast<uint32_t>(ranks));
  return cost;
}

Doubling doubling(int ranks, int round, int rank) {
  const int size = 1 << round;  // of every group but perhaps the last
  const int mine = rank / size * size;
  const int other = mine ^ size;
  if (other >= ranks) return {};
  Doubling result;
  result.lower = mine < other;
  const int place = rank - mine;
  const int my_size = std::min(size, ranks - mine);
  const int other_size = std::min(size, ranks - other);
  if (place < other_size) {
    result.source = other + place;
    result.targets.push_back(other + place);
  } else {  // the other group is smaller: its ranks share those left over, the last one first
    result.source = other + other_size - 1 - (place - other_size) % other_size;
  }
  for (int left = 2 * my_size - 1 - place; left < other_size; left += my_size) {
    result.targets.push_back(other + left);
  }
  return result;
}

}  // namespace tutti::algorithms::patterns
