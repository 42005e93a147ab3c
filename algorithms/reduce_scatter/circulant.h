// Circulant: in every round a rank passes on the partial sums of the further half of the shares
// that it still works on, in one message.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares. Partial sums need
// scratch for
//         half of the shares.
// Wins:   small and middle counts over a network; any number of ranks.
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm circulant();

}  // namespace tutti::algorithms::reduce_scatter
