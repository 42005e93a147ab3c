// Scatter, then all-gather: the root deals out n-ths down a binomial tree, then the circulant
// all-gather brings everybody all of them.
//
// Cost:   about 2 log2 n rounds; nobody sends or receives more than 2(n-1)/n of the count.
// Wins:   middle counts over a network and many ranks: too long for a tree, too short for a chain.
// Source: Barnett, Shuler, van de Geijn, Gupta, Payne, Watts, "Interprocessor collective
//         communication library (InterCom)", 1994.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm scatter_all_gather();

}  // namespace tutti::algorithms::broadcast
