// Pairwise: as direct, but one partner at a time: in round k every rank sends to the rank k further
// and adds what arrives from the rank k back.
//
// Cost:   n-1 rounds of one message of one share; the least bytes, and no scratch.
// Wins:   large counts over a network where n-1 messages at once to one rank are a burden.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
//         MPICH", 2005.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm pairwise();

}  // namespace tutti::algorithms::reduce_scatter
