// Hierarchical: a reduce-scatter by halves (circulant) among the children of every node, from the
// innermost level outwards.
//
// Cost:   out of a node of m of n ranks 1 - m/n of the buffer, the least; depth at a level
//         ceil(log2 children).
// Wins:   large counts where the links between nodes are slow, on any number of levels.
// Source: as all_reduce/hierarchical.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::reduce_scatter
