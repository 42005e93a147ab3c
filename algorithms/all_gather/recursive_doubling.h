// Recursive doubling: recursive halving (patterns/halving.h) backwards. Pairs at the greatest
// distance swap their shares, then pairs at half the distance what they have by now.
//
// Cost:   ceil(log2 n) rounds; every rank receives the least, n-1 shares. If n is no power of two
//         some ranks send more, less than twice as much.
// Wins:   small and middle counts over a network, powers of two; most bytes travel between near
//         ranks.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
//         MPICH", 2005, for powers of two.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm recursive_doubling();

}  // namespace tutti::algorithms::all_gather
