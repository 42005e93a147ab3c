#include "src/group/levels.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace tutti::group {
namespace {

// Of every node of the level inside the text that all its ranks have; empty: they have none in
// common. `inside` names nodes by their least ranks.
std::vector<std::string_view> common_texts(const std::vector<uint32_t>& inside,
                                           const std::vector<std::string>& texts) {
  std::vector<std::string_view> common(texts.begin(), texts.end());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[inside[rank]]) common[inside[rank]] = {};
  }
  return common;
}

// Every node of the one lies within a node of the other.
bool lies_within(const std::vector<uint32_t>& inner, const std::vector<uint32_t>& outer) {
  std::map<uint32_t, uint32_t> holder;  // by node of `inner`
  for (size_t rank = 0; rank < inner.size(); ++rank) {
    if (holder.try_emplace(inner[rank], outer[rank]).first->second != outer[rank]) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<uint32_t>> nodes_of(std::span<const std::vector<std::string>> neighborhoods,
                                            size_t ranks) {
  std::vector<uint32_t> nodes(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) nodes[rank] = rank;
  std::vector<std::vector<uint32_t>> levels;
  for (const std::vector<std::string>& texts : neighborhoods) {
    const std::vector<std::string_view> common = common_texts(nodes, texts);
    std::map<std::string_view, uint32_t> least;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const std::string_view text = common[nodes[rank]];
      if (!text.empty()) nodes[rank] = least.try_emplace(text, nodes[rank]).first->second;
    }
    levels.push_back(nodes);
  }
  return levels;
}

Result<std::vector<Level>> divide(std::vector<Level> networks, std::vector<Level> described) {
  std::vector<Level> merged;
  size_t next = 0;
  for (Level& level : described) {
    while (next < networks.size() && !lies_within(level.nodes, networks[next].nodes)) {
      if (!lies_within(networks[next].nodes, level.nodes)) {
        return Status::invalid_usage(
            "the level '" + level.name + "' of the cluster and the ranks that '" +
            networks[next].transport + "' connects ('" + networks[next].name +
            "') overlap, and neither holds the other");
      }
      merged.push_back(std::move(networks[next++]));
    }
    if (next == networks.size()) break;  // the outermost network has one node, as this level has
    level.reach = networks[next].reach;
    level.transport = networks[next].transport;
    if (lies_within(networks[next].nodes, level.nodes)) ++next;
    merged.push_back(std::move(level));
  }
  for (; next < networks.size(); ++next) merged.push_back(std::move(networks[next]));
  return merged;
}

void narrow(std::vector<double>& uplinks, std::span<const double> others) {
  uplinks.resize(std::max(uplinks.size(), others.size()));
  for (size_t i = 0; i < others.size(); ++i) {
    if (uplinks[i] == 0 || (others[i] > 0 && others[i] < uplinks[i])) uplinks[i] = others[i];
  }
}

}  // namespace tutti::group
