#include "src/schedule/node_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace tutti::schedule {
namespace {

// Gives nodes numbers from 0 in the order of their least ranks; returns how many there are.
uint32_t number(std::vector<uint32_t>& nodes) {
  std::map<uint32_t, uint32_t> numbers;
  for (uint32_t& node : nodes) {
    node = numbers.try_emplace(node, static_cast<uint32_t>(numbers.size())).first->second;
  }
  return static_cast<uint32_t>(numbers.size());
}

Status contradiction(size_t level, size_t rank, const std::string& why) {
  return Status::invalid_argument("level " + std::to_string(level) + " of a tree: rank " +
                                  std::to_string(rank) + " " + why);
}

}  // namespace

Result<NodeTreePointer> NodeTree::make(std::vector<std::vector<uint32_t>> levels) {
  if (levels.empty() || levels[0].empty()) {
    return Status::invalid_argument("a tree without levels or ranks");
  }
  const size_t ranks = levels[0].size();
  const std::shared_ptr<NodeTree> made(new NodeTree());
  std::vector<uint32_t> below(ranks);  // at first every rank is a node
  std::iota(below.begin(), below.end(), 0u);
  for (size_t i = 0; i < levels.size(); ++i) {
    std::vector<uint32_t>& nodes = levels[i];
    if (nodes.size() != ranks) return contradiction(i, nodes.size(), "has no node, or is too many");
    number(nodes);
    std::map<uint32_t, size_t> first;  // rank of a node below
    for (size_t rank = 0; rank < ranks; ++rank) {
      const size_t mate = first.try_emplace(below[rank], rank).first->second;
      if (nodes[mate] == nodes[rank]) continue;
      return contradiction(i, rank,
                           "is apart from rank " + std::to_string(mate) +
                               ", with which it shares a node of the level below");
    }
    if (nodes == below && (i + 1 < levels.size() || !made->nodes_.empty())) continue;
    below = nodes;
    made->add_level(std::move(nodes));
  }
  const auto apart = std::find_if(below.begin(), below.end(), [](uint32_t node) { return node; });
  if (apart != below.end()) {
    return contradiction(levels.size() - 1, static_cast<size_t>(apart - below.begin()),
                         "is apart from rank 0, and no level is above: nothing connects them");
  }
  return NodeTreePointer(made);
}

NodeTreePointer NodeTree::flat(int ranks) {
  return make({std::vector<uint32_t>(static_cast<size_t>(ranks), 0)}).value();
}

void NodeTree::add_level(std::vector<uint32_t> nodes) {
  const size_t level = nodes_.size();
  const uint32_t count = nodes.empty() ? 0 : 1 + *std::max_element(nodes.begin(), nodes.end());
  auto& children = children_.emplace_back(count);
  auto& ranks = ranks_.emplace_back(count);
  if (level == 0) {
    for (uint32_t rank = 0; rank < nodes.size(); ++rank) children[nodes[rank]].push_back(rank);
    for (uint32_t node = 0; node < count; ++node) {
      ranks[node].assign(children[node].begin(), children[node].end());
    }
  } else {
    for (uint32_t child = 0; child < ranks_[level - 1].size(); ++child) {
      const std::vector<int>& below = ranks_[level - 1][child];
      const uint32_t node = nodes[static_cast<size_t>(below[0])];
      children[node].push_back(child);
      ranks[node].insert(ranks[node].end(), below.begin(), below.end());
    }
  }
  nodes_.push_back(std::move(nodes));
}

uint32_t NodeTree::child_of(size_t level, int rank) const {
  const auto children = children_of(level, node_of(level, rank));
  const uint32_t below = level == 0 ? static_cast<uint32_t>(rank) : node_of(level - 1, rank);
  return static_cast<uint32_t>(std::find(children.begin(), children.end(), below) -
                               children.begin());
}

}  // namespace tutti::schedule
