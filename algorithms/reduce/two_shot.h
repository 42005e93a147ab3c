// Two shot: the direct reduce-scatter, then the direct gather.
//
// Cost:   2 rounds; nobody reduces more than one n-th, the root receives 2(n-1)/n of the count.
// Wins:   shared memory, middle and large counts: all ranks share the work of the fold.
// Source: folklore.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm two_shot();

}  // namespace tutti::algorithms::reduce
