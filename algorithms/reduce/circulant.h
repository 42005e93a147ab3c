// Circulant: the circulant reduce-scatter, then the binomial gather.
//
// Cost:   about 2 log2 n rounds; every rank sends and receives at most 2(n-1)/n of the count.
// Wins:   middle and large counts over a network; any number of ranks.
// Source: Rabenseifner, "Optimization of collective reduction operations", 2004;
//         Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm circulant();

}  // namespace tutti::algorithms::reduce
