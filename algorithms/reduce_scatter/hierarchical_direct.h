// Hierarchical, with direct messages among the children of a node.
//
// Cost:   the bytes of reduce_scatter/hierarchical; depth 1 at a level.
// Wins:   where nodes have few children. Canonical where the ranks of nodes are aligned runs.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm hierarchical_direct();

}  // namespace tutti::algorithms::reduce_scatter
