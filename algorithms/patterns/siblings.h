// The exchange among the children of one node of a tree, seen by a rank: which child is its own,
// and which ranks the others have.
//
// Threads: values; a tree outlives them. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// The tree of a call; without one, all ranks are on one node.
schedule::NodeTreePointer tree_of(const schedule::Parameters& p);

class Siblings {
 public:
  Siblings(const schedule::NodeTree& tree, size_t level, int rank);

  int count() const { return static_cast<int>(children_.size()); }
  int own() const { return own_; }  // the child that holds the rank
  /// The ranks below a child, all of them.
  std::span<const int> ranks_of(int child) const;
  /// Where the rank is among those of its child.
  size_t place() const { return place_; }

 private:
  const schedule::NodeTree& tree_;
  size_t level_;
  uint32_t node_;
  std::span<const uint32_t> children_;
  int own_ = 0;
  size_t place_ = 0;
};

}  // namespace tutti::algorithms::patterns
