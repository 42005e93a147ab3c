#include "src/group/levels.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tutti::group {

std::vector<std::vector<uint32_t>> nodes_of(std::span<const std::vector<std::string>> neighborhoods,
                                            size_t ranks) {
  std::vector<uint32_t> least(ranks);  // a forest: a rank that leads towards its node's least one
  for (uint32_t rank = 0; rank < ranks; ++rank) least[rank] = rank;
  const auto root = [&](uint32_t rank) {
    while (least[rank] != rank) rank = least[rank];
    return rank;
  };
  std::vector<std::vector<uint32_t>> levels;
  for (const std::vector<std::string>& texts : neighborhoods) {
    std::map<std::string_view, uint32_t> seen;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (texts[rank].empty()) continue;
      const uint32_t a = root(seen.try_emplace(texts[rank], rank).first->second), b = root(rank);
      least[std::max(a, b)] = std::min(a, b);
    }
    for (uint32_t& rank : least) rank = root(rank);
    levels.push_back(least);
  }
  return levels;
}

}  // namespace tutti::group
