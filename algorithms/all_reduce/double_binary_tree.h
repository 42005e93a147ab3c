// Double binary tree: each half of the data goes up a tree of its own to be reduced, then down.
//
// A rank with children in one tree is a leaf of the other, so both trees together load every rank
// alike. Up and down have lanes of their own: while one slice of a long call goes down, the next
// one comes up.
//
// Cost:   2 floor(log2 n) rounds; at most 4 messages of one half, 3/2 of the count published.
// Wins:   middle and large counts on many ranks: the bytes of a ring in a logarithm of its rounds.
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
//         scan", 2009.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::all_reduce {

schedule::Algorithm double_binary_tree();

}  // namespace tutti::algorithms::all_reduce
