// Recursive doubling: in round k groups of 2^k ranks tell each other their sums.
//
// Every round is one level of the balanced binary tree over ranks, the lower group's sum first, so
// the result is the deterministic mode's for every number of ranks. The last group may be smaller
// than its neighbour; its ranks then serve several of the neighbour's, in the same round and with
// one publication.
//
// Cost:   ceil(log2 n) rounds of the whole count, and as many messages if n is a power of two;
//         otherwise more on the last rank, up to n-1 where it is a group by itself.
// Wins:   small counts over a network; the deterministic mode.
// Source: folklore; Thakur, Rabenseifner, Gropp, "Optimization of collective communication
//         operations in MPICH", 2005, for powers of two.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm recursive_doubling();

}  // namespace tutti::algorithms::all_reduce
