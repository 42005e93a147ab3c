// Circulant: in every round a rank passes on up to everything it has, in one message.
//
// Bruck's algorithm on the circulant graph. Blocks are received where they belong: a message is a
// list of blocks, so nothing is rotated at the end.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares.
// Wins:   small and middle counts over a network; any number of ranks.
// Source: Bruck et al. 1997;
//         Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm circulant();

}  // namespace tutti::algorithms::all_gather
