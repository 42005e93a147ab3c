// A collective over the levels of a tree as a list of exchanges, and what they cost.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/patterns/shares.h"
#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// The nodes of a level at which the children exchange.
enum class At : uint8_t {
  kAllNodes,
  kAboveRoot,  // the node that holds the root of the collective: its child is the algorithm's root
  kBesideRoot  // the others
};

/// The children of nodes of one level do what the algorithm says.
struct Phase {
  size_t level = 0;
  schedule::Algorithm algorithm;
  At at = At::kAllNodes;

  bool includes(const schedule::NodeTree& tree, uint32_t node, int root) const {
    return at == At::kAllNodes || (tree.node_of(level, root) == node) == (at == At::kAboveRoot);
  }
  /// For the algorithm at a node.
  schedule::Parameters parameters(const schedule::NodeTree& tree, uint32_t node, int root,
                                  schedule::Fold fold) const;
};

/// A block of an algorithm's schedule among `children`, as seen by `child`: a block of a buffer of
/// parts is that of one child, the block of a buffer that is a part is the own one, and the block
/// of a buffer where neither has parts stands for those of all children.
std::vector<uint32_t> parts_of(const schedule::Algorithm& algorithm,
                               const schedule::Schedule& schedule, schedule::Block block,
                               uint32_t child, uint32_t children);

/// The longest chain of messages, and of those of each level, where every exchange takes as long
/// as its algorithm says: shares of siblings may be so few that it takes less.
struct Depths {
  uint32_t all = 0;
  std::vector<uint32_t> by_level;
};
Depths depths_of(const std::vector<Phase>& phases, const schedule::NodeTree& tree, int root);

/// By what ranks hold and what the algorithms pass on; no schedule of the collective is made.
std::vector<std::vector<schedule::CutLoad>> cuts_of(const std::vector<Phase>& phases,
                                                    const Shares& shares, int root);

}  // namespace tutti::algorithms::patterns
