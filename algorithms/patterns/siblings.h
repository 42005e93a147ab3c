// The exchange among the children of one node of a tree: the ranks of each child, and where a rank
// is among them.
//
// Threads: values; a tree outlives them. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// The tree of a call; without one, all ranks are on one node.
schedule::NodeTreePointer tree_of(const schedule::Parameters& p);

/// A rank as the place-th of those below a child.
struct Place {
  int child = 0;
  size_t place = 0;
};

class Siblings {
 public:
  Siblings(const schedule::NodeTree& tree, size_t level, uint32_t node);

  int count() const { return static_cast<int>(first_.size()) - 1; }
  /// The ranks below a child, all of them.
  std::span<const int> ranks_of(int child) const;
  /// The child `hops` further, round the circle; they may be negative.
  int further(int child, int hops) const { return (child + hops + count()) % count(); }
  /// Of a rank of the node. O(ranks of the node).
  Place place_of(int rank) const;
  /// The same for every rank of the node, child by child.
  template <class Visit>
  void for_each(Visit visit) const {
    for (int child = 0; child < count(); ++child) {
      for (size_t place = 0; place < ranks_of(child).size(); ++place) visit(Place{child, place});
    }
  }
  int rank_at(Place at) const { return ranks_of(at.child)[at.place]; }
  /// A rank's number among those of the node that are not below `child`.
  size_t number_outside(Place at, int child) const;

 private:
  std::span<const int> ranks_;  // child by child
  std::vector<size_t> first_;   // of each child, and behind the last
};

}  // namespace tutti::algorithms::patterns
