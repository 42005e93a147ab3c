// Folded doubling: recursive doubling among a power of two of ranks. Of the others, each hands its
// data to a neighbour before and gets the result back after.
//
// With k = floor(log2 n), the ranks 2i and 2i + 1 of the first n - 2^k pairs are one place of the
// doubling. Sums are of consecutive ranks, the lower ones first, on every rank in the same order.
//
// Cost:   ceil(log2 n) rounds; one more where n > 3/2 * 2^k. No rank sends more than one message of
//         the count a round, which is what recursive_doubling cannot promise.
// Wins:   small counts over a network where the number of ranks is no power of two.
// Source: Rabenseifner, "Optimization of collective reduction operations", 2004 (the handling of
//         numbers that are no powers of two).
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm folded_doubling();

}  // namespace tutti::algorithms::all_reduce
