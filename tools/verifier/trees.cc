#include "tools/verifier/trees.h"

#include <algorithm>
#include <numeric>

namespace tutti::schedule {
namespace {

constexpr int kMostChildren = 6;  // of nodes that hold nodes

void add(const NodeTree& tree, size_t level, uint32_t node, std::string& text) {
  text += '(';
  for (const uint32_t child : tree.children_of(level, node)) {
    if (level > 0) {
      add(tree, level - 1, child, text);
    } else {
      text += ' ' + std::to_string(child);
    }
  }
  text += ')';
}

}  // namespace

NodeTreePointer RandomTrees::make(int least_ranks, int most_ranks, int most_levels) {
  const int ranks = pick(least_ranks, most_ranks), levels = pick(2, most_levels);
  places_.resize(static_cast<size_t>(ranks));
  std::iota(places_.begin(), places_.end(), 0);
  if (pick(0, 1) == 1) std::shuffle(places_.begin(), places_.end(), random_);
  nodes_.assign(static_cast<size_t>(levels), std::vector<uint32_t>(places_.size(), 0));
  next_ = 1;
  cut(levels - 1, 0, ranks);
  return NodeTree::make(nodes_).value();
}

// Gives the ranks of a node to children of the level below.
void RandomTrees::cut(int level, int begin, int end) {
  if (level == 0) return;
  const int children = pick(1, std::min(end - begin, kMostChildren));
  std::vector<int> bounds = {begin, end};
  while (static_cast<int>(bounds.size()) < children + 1) {
    const int bound = pick(begin + 1, end - 1);
    if (std::find(bounds.begin(), bounds.end(), bound) == bounds.end()) bounds.push_back(bound);
  }
  std::sort(bounds.begin(), bounds.end());
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const uint32_t node = next_++;
    for (int at = bounds[i]; at < bounds[i + 1]; ++at) {
      const auto rank = static_cast<size_t>(places_[static_cast<size_t>(at)]);
      nodes_[static_cast<size_t>(level - 1)][rank] = node;
    }
    cut(level - 1, bounds[i], bounds[i + 1]);
  }
}

std::string print(const NodeTree& tree) {
  std::string text = std::to_string(tree.levels()) + " levels: ";
  add(tree, tree.levels() - 1, 0, text);
  return text;
}

}  // namespace tutti::schedule
