// Bruck: before round k every rank has the shares of the 2^k ranks from itself on, and passes them
// on in one message to the rank 2^k back.
//
// The last round is cut off where the number of ranks is no power of two. Blocks are received where
// they belong: a message is a list of blocks, so nothing is rotated at the end.
//
// Cost:   ceil(log2 n) rounds for every n, and the least bytes: n-1 shares; as circulant, with the
//         rounds less even.
// Wins:   small counts over a network; mainly what others are compared with.
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications
//         in multiport message-passing systems", 1997.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm bruck();

}  // namespace tutti::algorithms::all_gather
