// Binomial tree: who has the data publishes it to all its children, the largest subtree first.
//
// Cost:   floor(log2 n) rounds; the root sends ceil(log2 n) messages, published once.
// Wins:   small counts over a network.
// Source: folklore; as in every MPI library.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm binomial();

}  // namespace tutti::algorithms::broadcast
