// Two shot: the direct reduce-scatter, then the direct all-gather.
//
// Every rank reduces its n-th of the data in one pass over all inputs and publishes the result.
//
// Cost:   2 rounds; 2(n-1) messages of one n-th; 2(n-1)/n of the count sent, 1 published.
// Wins:   shared memory from middle counts on; nothing touches memory less.
// Source: folklore; "reduce-scatter + all-gather" in shared-memory MPI libraries.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm two_shot();

}  // namespace tutti::algorithms::all_reduce
