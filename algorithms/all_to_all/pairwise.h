// Pairwise: everybody exchanges one block with everybody, both ranks of a pair in the same round.
//
// All sends come before the first wait, so no round waits for another; and because they do, a block
// may be received over the one that was sent (in place).
//
// Cost:   1 round of waiting; n-1 messages of one block, the least bytes there are.
// Wins:   all but very small counts on many ranks.
// Source: folklore; the pairing is that of a round-robin tournament.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_to_all {

schedule::Algorithm pairwise();

}  // namespace tutti::algorithms::all_to_all
