// Hierarchical, with folded doubling among the children of the outermost node.
//
// Cost:   depth 2 at every level but the outermost. There ceil(log2 d) for d children, or
//         one more (folded_doubling), and at most one count out of a child in a round.
// Wins:   small counts on many hosts, where d - 1 counts out of each would be too much.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm hierarchical_doubling();

}  // namespace tutti::algorithms::all_reduce
