// Recursive halving for any number of ranks, in the canonical order.
//
// Before round k the ranks are in groups of 2^k (the last may be smaller), and the members of a
// group hold, between them, the group's sum of every share once. In round k the groups 2g and 2g+1
// join: of each share one of the two holders sends its sum to the other. Round 0 is between
// neighbours and moves half of all shares; the last round is between ranks far apart and moves one
// or two. Sums are made of equal, aligned halves: that is the canonical tree.
//
// A member at place c of its group holds the shares whose owner is c modulo 2^k. In a group with
// fewer than 2^k members, the shares of a place that does not exist are with the member whose place
// is left when leading bits are dropped: so they hardly ever change hands when the group grows.
// After the last round every rank holds its own share. Reversed, it is recursive doubling: an
// all-gather.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::algorithms::patterns {

/// The shares, by owner in rising order, that one message carries.
struct Handover {
  int peer = -1;  // none
  std::vector<int> shares;
};

struct HalvingRound {
  std::vector<Handover> sends;  // more than one only where the own group is the smaller one
  Handover receive;             // to be added to the own sums
};
HalvingRound halving_round(int ranks, int round, int rank);

/// The load of the busiest ranks in all rounds. Every rank sends ranks - 1 shares.
struct HalvingLoad {
  uint32_t messages = 0;        // sent, or received
  uint32_t total_messages = 0;  // sent and received by one rank
  uint64_t received = 0;        // shares
};
HalvingLoad halving_load(int ranks);

}  // namespace tutti::algorithms::patterns
