// Trees over ranks. Every function finds one rank's place by arithmetic, without building the tree.
#pragma once

#include <cstdint>
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

/// The ranks [first, first + count), and the one among them that speaks for all.
struct Subtree {
  int rank = 0;
  int first = 0;
  int count = 0;
};

/// A rank's place in the aligned tree.
struct AlignedPlace {
  int parent = kNobody;
  Subtree own;
  std::vector<Subtree> children;  // in the order in which they join, the smallest first
};

/// A binomial tree whose subtrees are aligned groups of 2^k ranks, with any rank as the root:
/// groups join in pairs, level by level, as in the canonical order of a fold. The root speaks for
/// every group it is in, the lowest rank for the others.
AlignedPlace aligned_tree(int ranks, int root, int rank);

struct AlignedLoad {
  uint32_t height = 0;
  uint32_t most_children = 0;  // of any rank; 1 counts for a rank with a parent only
  uint32_t most_edges = 0;     // to the parent and the children of any rank
  uint64_t largest = 0;        // subtree of a rank that is not the root
  uint64_t most_moved = 0;     // by any rank, where whole subtrees go over the edges
  uint64_t handed_over = 0;    // over all edges together
};
AlignedLoad aligned_load(int ranks, int root);

/// Two binary trees, `which` is 0 or 1, such that a rank with children in one is a leaf of the
/// other: with half of the data through each, every link is busy in both directions. Depth
/// floor(log2 ranks).
TreePlace complementary_tree(int ranks, int which, int rank);

}  // namespace tutti::algorithms::patterns
