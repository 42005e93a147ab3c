// Bruck: a block for the rank d further travels by the powers of two in d, the smallest first;
// blocks that make the same hop go in one message.
//
// Blocks are sent from and received where they lie, so nothing is rotated before or after. In
// place, a block can arrive where another has yet to leave: that happens for at most log2 n blocks,
// which move out of the way first.
//
// Cost:   ceil(log2 n) rounds of one message; about n/2 log2 n blocks, because they are forwarded.
// Wins:   very small counts on many ranks.
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications
//         in multiport message-passing systems", 1997.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_to_all {

schedule::Algorithm bruck();

}  // namespace tutti::algorithms::all_to_all
