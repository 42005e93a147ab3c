// One shot: everybody publishes its whole input, everybody reduces all of them in one pass.
//
// Cost:   1 round; n-1 messages of the whole count, published once; every rank reduces everything.
// Wins:   small counts, and always between two ranks: nothing has less latency.
// Source: folklore; "flat" in shared-memory MPI libraries.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm one_shot();

}  // namespace tutti::algorithms::all_reduce
