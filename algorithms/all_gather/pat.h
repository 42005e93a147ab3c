// PAT, parallel aggregated trees: every share travels down a binomial tree of its own, all trees at
// the same time, and what goes the same way in a round is one message.
//
// The far hops come first, while a rank has few shares: one share travels half way round, and half
// of all shares travel one rank. Cutting a message that would not fit a buffer, which the paper
// does by running fewer trees at a time, is what slices do here for every schedule.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares.
// Wins:   small and middle counts where links between far ranks are slow or shared.
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
//         arXiv 2506.20252, 2025.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm pat();

}  // namespace tutti::algorithms::all_gather
