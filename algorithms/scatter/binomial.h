// Binomial tree: a rank receives the shares of its subtree in one message, and sends each child
// those of the child's.
//
// Subtrees are aligned groups of ranks (patterns/tree.h): their shares lie side by side.
//
// Cost:   at most ceil(log2 n) rounds and messages for the root, which sends the least bytes; up to
//         half of the shares pass through another rank, in its scratch.
// Wins:   small counts over a network, many ranks.
// Source: folklore; as in every MPI library.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::scatter {

schedule::Algorithm binomial();

}  // namespace tutti::algorithms::scatter
