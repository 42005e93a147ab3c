// Direct: everybody sends its input to the root, which reduces all of them in one pass.
//
// Cost:   1 round; the root receives n-1 messages of the whole count.
// Wins:   small counts, few ranks; where the root can read its peers' memory.
// Source: folklore.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm direct();

}  // namespace tutti::algorithms::reduce
