#include "src/topology/equal_nodes.h"

#include <utility>

#include "src/topology/name_range.h"

namespace tutti::topology {

EqualNodes::EqualNodes(const Topology& topology) : topology_(topology) {
  kinds_.resize(topology.levels());
  for (size_t level = 0; level < topology.levels(); ++level) {
    for (uint32_t node = 0; node < topology.nodes(level); ++node) add(level, node);
  }
}

double EqualNodes::own_uplink(size_t level, uint32_t node) const {
  return topology_.has_own_uplink(level, node) ? topology_.uplink_bytes_per_ns(level, node) : 0;
}

void EqualNodes::add(size_t level, uint32_t node) {
  Inside below;
  if (level > 0) {
    for (const Neighbours& equal : children(level, node)) {
      below.emplace_back(kinds_[level - 1][equal.first], equal.count, names(level - 1, equal));
    }
  }
  const uint32_t leaves = level == 0 ? topology_.children(0, node).size() : 0;
  const auto next = static_cast<uint32_t>(known_.size());
  Key key(level, own_uplink(level, node), leaves, std::move(below));
  kinds_[level].push_back(known_.try_emplace(std::move(key), next).first->second);
}

bool EqualNodes::continues(size_t level, uint32_t node) const {
  if (kinds_[level][node] != kinds_[level][node - 1]) return false;
  const std::string_view name = topology_.node_name(level, node);
  const std::string_view before = topology_.node_name(level, node - 1);
  return name.empty() ? before.empty() : follows(before, name);
}

std::vector<Neighbours> EqualNodes::children(size_t level, uint32_t node) const {
  std::vector<Neighbours> found;
  const NumberRange below = topology_.children(level, node);
  for (uint32_t child = below.first; child < below.last; ++child) {
    if (child > below.first && continues(level - 1, child)) {
      ++found.back().count;
    } else {
      found.push_back({child, 1});
    }
  }
  return found;
}

std::string EqualNodes::names(size_t level, const Neighbours& nodes) const {
  const std::string_view first = topology_.node_name(level, nodes.first);
  if (first.empty()) return "";
  return fold_names(first, topology_.node_name(level, nodes.first + nodes.count - 1));
}

}  // namespace tutti::topology
