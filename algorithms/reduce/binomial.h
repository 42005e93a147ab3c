// Binomial tree: groups of 2^k ranks hand their sum to the one that speaks for the next larger
// group.
//
// The tree is aligned to ranks, not to the root (patterns/tree.h): it reduces in the canonical
// order whoever the root is, and where ranks are numbered host by host few edges leave a host.
//
// Cost:   at most ceil(log2 n) rounds; the root receives as many messages of the whole count.
// Wins:   small counts over a network, many ranks.
// Source: folklore; as in every MPI library.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm binomial();

}  // namespace tutti::algorithms::reduce
