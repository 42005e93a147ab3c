#include "algorithms/patterns/siblings.h"

#include <algorithm>

namespace tutti::algorithms::patterns {

using schedule::NodeTree;
using schedule::NodeTreePointer;

NodeTreePointer tree_of(const schedule::Parameters& p) {
  return p.tree != nullptr ? p.tree : NodeTree::flat(p.ranks);
}

Siblings::Siblings(const NodeTree& tree, size_t level, int rank)
    : tree_(tree),
      level_(level),
      node_(tree.node_of(level, rank)),
      children_(tree.children_of(level, node_)) {
  own_ = static_cast<int>(tree.child_of(level, rank));
  const auto mates = ranks_of(own_);
  place_ = static_cast<size_t>(std::find(mates.begin(), mates.end(), rank) - mates.begin());
}

std::span<const int> Siblings::ranks_of(int child) const {
  const auto index = static_cast<size_t>(child);
  if (level_ > 0) return tree_.ranks_of(level_ - 1, children_[index]);
  return tree_.ranks_of(0, node_).subspan(index, 1);
}

}  // namespace tutti::algorithms::patterns
