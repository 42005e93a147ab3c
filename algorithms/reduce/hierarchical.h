// Hierarchical: broadcast/hierarchical backwards.
//
// Cost:   the count once out of every node without the root, shared by the ranks of the node.
// Wins:   large counts where the links between nodes are slow, on any number of levels.
// Source: as broadcast/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::reduce
