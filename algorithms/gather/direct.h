// Direct: everybody sends its share to the root.
//
// Cost:   1 round; the root receives n-1 messages of one share: the least bytes there are.
// Wins:   shared memory; large counts; few ranks.
// Source: folklore; "linear" in Open MPI.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::gather {

schedule::Algorithm direct();

}  // namespace tutti::algorithms::gather
