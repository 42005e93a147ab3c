// Dissemination: in round k every rank tells the rank 2^k further that it, and all it heard of,
// have arrived.
//
// Cost:   ceil(log2 n) rounds of one empty message a rank.
// Wins:   always; no other barrier needs fewer rounds, and none is fairer to every rank.
// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::barrier {

schedule::Algorithm dissemination();

}  // namespace tutti::algorithms::barrier
