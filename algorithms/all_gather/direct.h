// Direct: everybody publishes its share once, everybody reads all of them.
//
// Cost:   1 round; n-1 messages of one share, published once.
// Wins:   wherever n-1 messages a rank are no burden: one host, few ranks.
// Source: folklore.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm direct();

}  // namespace tutti::algorithms::all_gather
