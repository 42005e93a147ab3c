// Hierarchical: a reduce-scatter among the children of every node, from the innermost level
// outwards, then all-gathers back inwards, each by halves (circulant).
//
// Cost:   over the cut of a node 2 - 2/P of the count in either direction, P the product of the
//         numbers of children on the way to it: the least where siblings have equal links. Depth at
//         a level 2 * ceil(log2 children).
// Wins:   large counts where the links between nodes are slow, on any number of levels.
// Source: Traeff, Hunold, "Decomposing MPI collectives for exploiting multi-lane communication",
//         2020: every rank of a node has a lane of its own; the circulant of Traeff 2024 in it.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::all_reduce
