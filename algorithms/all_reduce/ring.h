// Ring: the ring reduce-scatter, then the ring all-gather; every lane its own ring.
//
// Cost:   2(n-1) rounds, one message of one n-th each, to the same neighbour; 2(n-1)/n of the
//         count, the least there is. Two lanes use both directions of every link.
// Wins:   large counts on few ranks, where neighbours are near.
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm ring();

}  // namespace tutti::algorithms::all_reduce
