// Who talks to whom when everybody talks at once, or in rounds of doubling distance.
#pragma once

#include <span>
#include <vector>

#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

/// ceil(log2 ranks): rounds in which what one rank knows can reach everybody.
int doubling_rounds(int ranks);

/// All ranks but `rank`, the next one first: were all to begin at rank 0, all would hit rank 0 at
/// once.
std::vector<int> others(int ranks, int rank);

/// Sources of a reduction in rank order: `mine` for `rank`, the next message for each other member.
/// Everybody who reduces the same members in this order gets the same bits.
std::vector<schedule::Operand> in_rank_order(std::span<const int> members, int rank,
                                             const schedule::Block& mine);
std::vector<schedule::Operand> in_rank_order(int ranks, int rank, const schedule::Block& mine);

}  // namespace tutti::algorithms::patterns
