#include "algorithms/patterns/siblings.h"

#include <algorithm>

namespace tutti::algorithms::patterns {

using schedule::NodeTree;
using schedule::NodeTreePointer;

NodeTreePointer tree_of(const schedule::Parameters& p) {
  return p.tree != nullptr ? p.tree : NodeTree::flat(p.ranks);
}

Siblings::Siblings(const NodeTree& tree, size_t level, uint32_t node)
    : ranks_(tree.ranks_of(level, node)), first_{0} {
  for (const uint32_t child : tree.children_of(level, node)) {
    first_.push_back(first_.back() + (level == 0 ? 1 : tree.ranks_of(level - 1, child).size()));
  }
}

std::span<const int> Siblings::ranks_of(int child) const {
  const auto index = static_cast<size_t>(child);
  return ranks_.subspan(first_[index], first_[index + 1] - first_[index]);
}

Place Siblings::place_of(int rank) const {
  const auto at =
      static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  const auto behind = std::upper_bound(first_.begin(), first_.end(), at);
  return {static_cast<int>(behind - first_.begin()) - 1, at - *(behind - 1)};
}

size_t Siblings::number_outside(Place at, int child) const {
  const size_t number = first_[static_cast<size_t>(at.child)] + at.place;
  return at.child < child ? number : number - ranks_of(child).size();
}

}  // namespace tutti::algorithms::patterns
