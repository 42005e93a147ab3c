// Hierarchical: from the outermost level inwards, a rank sends one message to each sibling node,
// with its blocks for all ranks there; the rank that receives it passes them on further in.
//
// Cost:   depth 1 at a level. A rank sends a message to each of its siblings at every level, and
//         each block crosses the slowest of the links on its way once; links further in carry it up
//         to once more a level, because it is passed on.
// Wins:   small and middle counts on many ranks, where flat algorithms send a message between every
//         two ranks of different hosts.
// Source: the node-aware exchanges of MPI libraries (Bienz, Olson, Gropp, "Node-aware improvements
//         to allreduce", 2019, have the idea for two levels); any tree: this library.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_to_all {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::all_to_all
