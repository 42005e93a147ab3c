// Ring: a share starts at its owner's successor, collects a contribution a hop, ends at its owner.
//
// Cost:   n-1 rounds, one message of one share each, to the same neighbour: the least bytes.
//         Partial sums need scratch, one block for each, because shares may differ in size.
// Wins:   large counts where neighbours are near and every rank has two links or one duplex link.
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm ring();

}  // namespace tutti::algorithms::reduce_scatter
