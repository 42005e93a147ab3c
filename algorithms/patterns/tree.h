// Trees over ranks. Every function finds one rank's place by arithmetic, without building the tree.
#pragma once

#include <vector>

namespace tutti::algorithms::patterns {

inline constexpr int kNobody = -1;

/// A rank's place in a tree. Children are ordered by the size of their subtrees, the largest first.
struct TreePlace {
  int parent = kNobody;  // the root has none
  std::vector<int> children;
};

/// Binomial tree: counted from the root, a rank's parent is the rank without its lowest bit.
/// Subtrees are contiguous: where ranks are numbered host by host, few edges leave a host.
TreePlace binomial_tree(int ranks, int root, int rank);

/// Two binary trees, `which` is 0 or 1, such that a rank with children in one is a leaf of the
/// other: with half of the data through each, every link is busy in both directions. Depth
/// floor(log2 ranks).
TreePlace complementary_tree(int ranks, int which, int rank);

}  // namespace tutti::algorithms::patterns
