// Halving and doubling: the reduce-scatter by recursive halving, then the all-gather by recursive
// doubling.
//
// Cost:   2 ceil(log2 n) rounds; for powers of two the least bytes, 2(n-1)/n of the count, else
// less
//         than half as much again.
// Wins:   middle counts over a network, above all where the order must be canonical: no other
//         canonical schedule has logarithmic depth and does not send the whole vector every round.
// Source: Rabenseifner, "Optimization of collective reduction operations", 2004, for powers of two.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm halving_doubling();

}  // namespace tutti::algorithms::all_reduce
