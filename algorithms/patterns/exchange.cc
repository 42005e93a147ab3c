#include "algorithms/patterns/exchange.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tutti::algorithms::patterns {

using schedule::Block;
using schedule::Operand;

int doubling_rounds(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

std::vector<int> others(int ranks, int rank) {
  std::vector<int> peers;
  for (int hops = 1; hops < ranks; ++hops) peers.push_back((rank + hops) % ranks);
  return peers;
}

std::vector<Operand> in_rank_order(std::span<const int> members, int rank, const Block& mine) {
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Operand> sources;
  for (int member : sorted) {
    sources.push_back(member == rank ? Operand::local(mine) : Operand::message(member));
  }
  return sources;
}

std::vector<Operand> in_rank_order(int ranks, int rank, const Block& mine) {
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return in_rank_order(members, rank, mine);
}

}  // namespace tutti::algorithms::patterns
