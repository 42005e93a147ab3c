// The circulant graph of Traeff's round-optimal algorithms: every rank is linked to the ranks s1,
// s2, ... further on, where s0 = n and each s is half of the one before, rounded up, down to 1.
//
// A reduce-scatter takes the hops in order: blocks in the far half of a rank's window travel to
// where they are in the near half, until the window is one block. An all-gather takes them in
// reverse. It takes ceil(log2 n) rounds and n-1 blocks for every n, not for powers of two only.
#pragma once

#include <vector>

namespace tutti::algorithms::patterns {

/// One round: blocks at offsets [distance, distance + count) from a rank travel `distance` ranks;
/// there they are at offsets [0, count).
struct Hop {
  int distance = 0;
  int count = 0;
};

/// The hops of a reduce-scatter, longest first; their counts add up to ranks - 1.
std::vector<Hop> circulant_hops(int ranks);

}  // namespace tutti::algorithms::patterns
