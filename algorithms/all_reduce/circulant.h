// Circulant: the circulant reduce-scatter, then the circulant all-gather.
//
// Cost:   2 ceil(log2 n) rounds for every n, and the least bytes: 2(n-1)/n of the count.
// Wins:   middle counts over a network; any number of ranks.
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm circulant();

}  // namespace tutti::algorithms::all_reduce
