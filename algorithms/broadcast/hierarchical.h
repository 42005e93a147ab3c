// Hierarchical: binomial trees among the children of the nodes that hold the root, then all-gathers
// in the other nodes.
//
// Cost:   the count once into every node without the root, shared by the ranks of the node.
// Wins:   large counts where the links between nodes are slow, on any number of levels.
// Source: Traeff, Hunold, "Decomposing MPI collectives for exploiting multi-lane communication",
//         2020.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::broadcast
