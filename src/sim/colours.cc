#include "src/sim/colours.h"

#include <algorithm>
#include <bit>

namespace tutti::sim {

namespace {

uint64_t with_link(uint64_t colour, const NetworkLink& link) {
  for (const double value : {link.bytes_per_ns, link.delay_ns, link.loss}) {
    colour = mix(colour, std::bit_cast<uint64_t>(value));
  }
  return mix(colour, link.dead_from);
}

size_t distinct(std::vector<uint64_t> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

}  // namespace

Colours::Colours(const Network& network, std::vector<uint64_t> ranks)
    : network_(network), ranks_(std::move(ranks)) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto port = static_cast<uint32_t>(rank);
    ranks_[rank] = with_link(ranks_[rank], network.link(network.link_id(LinkWay::kUp, 0, port)));
  }
  for (size_t level = 0; level < network.levels(); ++level) {
    std::vector<uint64_t> colours(network.group()->nodes(level), level);
    for (uint32_t node = 0; node < colours.size() && level + 1 < network.levels(); ++node) {
      const uint32_t link = network.link_id(LinkWay::kUp, level + 1, node);
      colours[node] = with_link(colours[node], network.link(link));
    }
    nodes_.push_back(std::move(colours));
  }
}

// A node by what is in it, whatever the order, and by the node that it is in.
void Colours::colour_nodes() {
  const group::GroupView& group = *network_.group();
  std::vector<uint64_t> below = ranks_;
  std::vector<int> first(ranks_.size());
  for (size_t rank = 0; rank < first.size(); ++rank) first[rank] = static_cast<int>(rank);
  for (size_t level = 0; level < nodes_.size(); ++level) {
    std::vector<std::vector<uint64_t>> children(nodes_[level].size());
    for (size_t child = 0; child < below.size(); ++child) {
      children[group.node_of(level, first[child])].push_back(below[child]);
    }
    for (size_t node = 0; node < children.size(); ++node) {
      std::sort(children[node].begin(), children[node].end());
      uint64_t& colour = nodes_[level][node];
      for (const uint64_t child : children[node]) colour = mix(colour, child);
    }
    below = nodes_[level];
    first = group.first_ranks(level);
  }
  for (size_t level = nodes_.size() - 1; level-- > 0;) {
    for (size_t node = 0; node < nodes_[level].size(); ++node) {
      const uint32_t parent = group.node_of(level + 1, group.first_ranks(level)[node]);
      nodes_[level][node] = mix(nodes_[level][node], nodes_[level + 1][parent]);
    }
  }
}

// All nodes that hold it: the innermost has the colours of those above.
uint64_t Colours::with_nodes(size_t rank) const {
  return mix(ranks_[rank], nodes_[0][network_.node_of(0, static_cast<int>(rank))]);
}

size_t Colours::count() const {
  size_t sum = distinct(ranks_);
  for (const auto& level : nodes_) sum += distinct(level);
  return sum;
}

uint64_t Colours::of_link(const NetworkLink& link) const {
  const bool is_medium = link.way == LinkWay::kShared;
  const uint64_t owner = link.level == 0 ? ranks_[link.node] : nodes_[link.level - 1][link.node];
  return mix(mix(static_cast<uint64_t>(link.way), link.level), mix(is_medium, owner));
}

}  // namespace tutti::sim
