// Circulant: of the shares a rank still works on, every round passes the further half on in one
// message, and folds what arrives into the nearer half.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares.
//         Partial sums need scratch for half of the shares.
// Wins:   small and middle counts over a network; any number of ranks.
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm circulant();

}  // namespace tutti::algorithms::reduce_scatter
