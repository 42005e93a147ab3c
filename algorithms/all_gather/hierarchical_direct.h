// Hierarchical, with direct messages among the children of a node.
//
// Cost:   the bytes of all_gather/hierarchical; depth 1 at a level.
// Wins:   where nodes have few children.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm hierarchical_direct();

}  // namespace tutti::algorithms::all_gather
