// Chain: every rank hands the data to the next one. With slices it is a pipeline, and each link
// carries the data exactly once.
//
// Cost:   n-1 rounds; every rank but the last sends one message.
// Wins:   long counts over a network where a rank's own link is the limit.
// Source: folklore; "pipeline" in Open MPI.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm chain();

}  // namespace tutti::algorithms::broadcast
