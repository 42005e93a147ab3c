// Ring: every share travels once around, each rank keeps a copy and passes it on.
//
// Cost:   n-1 rounds, one message of one share each, to the same neighbour.
// Wins:   large counts where neighbours are near and every rank has two links or one duplex link.
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm ring();

}  // namespace tutti::algorithms::all_gather
