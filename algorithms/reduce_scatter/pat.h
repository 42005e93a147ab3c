// PAT, parallel aggregated trees: every share is folded up a binomial tree of its own, all trees at
// the same time, and what goes the same way in a round is one message.
//
// The near hops come first: half of all shares travel one rank, and one share, folded from half of
// the ranks, travels half way round.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares.
//         Partial sums need scratch for half of the shares.
// Wins:   small and middle counts where links between far ranks are slow or shared.
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
//         arXiv 2506.20252, 2025.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm pat();

}  // namespace tutti::algorithms::reduce_scatter
