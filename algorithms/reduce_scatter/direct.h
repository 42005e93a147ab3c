// Direct: everybody sends every other rank its share, and reduces its own share in one pass.
//
// Cost:   1 round; n-1 messages of one share each: the least bytes there are.
// Wins:   wherever n-1 messages a rank are no burden: one host, large counts on few ranks.
// Source: folklore; the first half of "two shot".
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm direct();

}  // namespace tutti::algorithms::reduce_scatter
