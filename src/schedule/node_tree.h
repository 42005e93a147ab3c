// The tree in which the ranks of a group live, as far as a schedule may know it: which ranks share
// a node of which level. It knows no names, links or speeds.
//
// Level 0 is the innermost; its nodes hold ranks. A node of a level above holds nodes of the level
// below, and the last level has one node. Sizes may differ, a node may hold a single child, and
// ranks may be on nodes in any order. A message belongs to the innermost level at which one node
// holds both its ends.
//
// Equal on all ranks of a group. Threads: immutable; shared by NodeTreePointer. Errors: make() says
// which rank's place contradicts the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"

namespace tutti::schedule {

class NodeTree {
 public:
  /// `levels` from the innermost: for every rank the node that holds it, any number. Levels at
  /// which nothing joins that was apart below are left out; nodes get numbers from 0 in the order
  /// of their least ranks.
  static Result<std::shared_ptr<const NodeTree>> make(std::vector<std::vector<uint32_t>> levels);
  /// One node that holds all ranks.
  static std::shared_ptr<const NodeTree> flat(int ranks);

  int ranks() const { return static_cast<int>(nodes_[0].size()); }
  size_t levels() const { return nodes_.size(); }
  uint32_t nodes(size_t level) const { return static_cast<uint32_t>(children_[level].size()); }
  uint32_t node_of(size_t level, int rank) const {
    return nodes_[level][static_cast<size_t>(rank)];
  }
  /// Nodes of the level below, or ranks at level 0, in the order of their least ranks.
  std::span<const uint32_t> children_of(size_t level, uint32_t node) const {
    return children_[level][node];
  }
  /// The ranks below a node, child by child.
  std::span<const int> ranks_of(size_t level, uint32_t node) const { return ranks_[level][node]; }
  /// Which child of its node at `level` holds a rank. O(children).
  uint32_t child_of(size_t level, int rank) const;

  /// The innermost level at which one node holds both. O(levels).
  size_t common_level(int a, int b) const {
    size_t level = 0;
    while (node_of(level, a) != node_of(level, b)) ++level;
    return level;
  }
  bool operator==(const NodeTree&) const = default;

 private:
  NodeTree() = default;
  void add_level(std::vector<uint32_t> nodes);

  std::vector<std::vector<uint32_t>> nodes_;                  // [level][rank]
  std::vector<std::vector<std::vector<uint32_t>>> children_;  // [level][node]
  std::vector<std::vector<std::vector<int>>> ranks_;          // [level][node]
};

using NodeTreePointer = std::shared_ptr<const NodeTree>;

}  // namespace tutti::schedule
