// Hierarchical, with one exchange among the children of the outermost node: everybody sends what it
// holds to the others of its team.
//
// Cost:   depth 1 at the outermost level, 2 at the others; d - 1 counts out of each of d outermost
//         nodes.
// Wins:   small counts where the outermost links have a long delay.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm hierarchical_one_shot();

}  // namespace tutti::algorithms::all_reduce
