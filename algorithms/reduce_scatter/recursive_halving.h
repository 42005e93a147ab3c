// Recursive halving: groups of 2^k ranks join in pairs, the nearest first; in every round a rank
// hands over half of the sums it holds and adds those it receives to the other half.
//
// It works for every number of ranks, without a round in which some ranks stand in for others
// (patterns/halving.h), and reduces in the canonical order.
//
// Cost:   ceil(log2 n) rounds; every rank sends the least, n-1 shares. If n is no power of two some
//         ranks receive more, less than twice as much.
//         Partial sums need scratch for half of the shares.
// Wins:   small and middle counts over a network, above all where the order must be canonical.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
//         MPICH", 2005, for powers of two.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm recursive_halving();

}  // namespace tutti::algorithms::reduce_scatter
