// The partners of a rank when all ranks talk at once, or in rounds of doubling distance.
#pragma once

#include <span>
#include <vector>

#include "src/schedule/algorithm.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

/// ceil(log2 ranks): rounds in which what one rank knows can reach everybody.
int doubling_rounds(int ranks);

/// All ranks but `rank`, the next one first: if all began at rank 0, all would hit rank 0 at once.
std::vector<int> others(int ranks, int rank);

/// Sources of a reduction in rank order: `mine` for `rank`, the next message for each other member.
/// Everybody who reduces the same members in this order gets the same bits.
std::vector<schedule::MoveSource> in_rank_order(std::span<const int> members, int rank,
                                                const schedule::Block& mine);
std::vector<schedule::MoveSource> in_rank_order(int ranks, int rank, const schedule::Block& mine);

/// Completes a cost where every rank publishes and receives as much as the busiest.
schedule::Cost balanced(int ranks, schedule::Cost cost);

/// One round in which every rank publishes `published` counts and receives one from every other.
schedule::Cost one_round(int ranks, int published);

/// One round in which the root sends a count of its own to every other rank, or receives one; the
/// busiest sender publishes `published` counts.
schedule::Cost rooted_round(int ranks, int published);

/// The same, where what a rank has received is folded with its own in one step.
schedule::Cost in_one_fold(int ranks, schedule::Cost cost);

/// A rank's part in one round of recursive doubling, for any number of ranks.
///
/// Before round k all ranks of a group, those with equal r / 2^k, know the group's value; in round
/// k the groups 2g and 2g+1 tell each other theirs. The last group may be smaller than its
/// neighbour: then each of its ranks serves several. It may also have no neighbour: then it skips
/// the round.
struct Doubling {
  bool lower = false;        // my group is the one with the smaller ranks
  int source = -1;           // who tells me the value of the other group; -1: there is none
  std::vector<int> targets;  // whom I tell the value of mine; may be empty
};
Doubling doubling(int ranks, int round, int rank);

}  // namespace tutti::algorithms::patterns
