// Hierarchical: dissemination among the children of every node, from the innermost level outwards.
// All ranks of a child know the same, so every rank of a child hears from one rank of the child
// that its own hears from, and nothing is left to be spread inwards.
//
// Cost:   ceil(log2 d) rounds at a level of at most d children: as many messages wait for each
//         other over its links. A rank sends a message to each rank it serves: one where siblings
//         are alike, m where it stands alone beside a child of m ranks.
// Wins:   wherever the links between nodes are slower than those in them.
// Source: dissemination by Hensgen, Finkel, Manber, 1988; over levels: this library.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::barrier {

schedule::Algorithm hierarchical();

}  // namespace tutti::algorithms::barrier
