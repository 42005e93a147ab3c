// Hierarchical, with direct messages among the children of a node: one fold outwards and one round
// back inwards at every level.
//
// Cost:   the bytes of all_reduce/hierarchical; depth 2 at a level, a message to every sibling.
// Wins:   where nodes have few children. Canonical where the ranks of nodes are aligned runs.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm hierarchical_direct();

}  // namespace tutti::algorithms::all_reduce
