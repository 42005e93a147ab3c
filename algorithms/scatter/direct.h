// Direct: the root sends everybody its share.
//
// Cost:   1 round; the root sends n-1 messages of one share: the least bytes there are.
// Wins:   shared memory; large counts; few ranks.
// Source: folklore; "linear" in Open MPI.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::scatter {

schedule::Algorithm direct();

}  // namespace tutti::algorithms::scatter
