#include "src/comm/overlay.h"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::comm {

std::vector<int> first_ranks(std::span<const std::vector<std::string>> neighborhoods, int ranks) {
  std::vector<int> first(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) first[static_cast<size_t>(rank)] = rank;
  const auto root = [&](int rank) {
    while (first[static_cast<size_t>(rank)] != rank) rank = first[static_cast<size_t>(rank)];
    return rank;
  };
  for (const std::vector<std::string>& of_transport : neighborhoods) {
    std::map<std::string_view, int> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string& text = of_transport[static_cast<size_t>(rank)];
      if (text.empty()) continue;
      const int a = root(seen.try_emplace(text, rank).first->second), b = root(rank);
      first[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
  for (int& rank : first) rank = root(rank);
  return first;
}

std::vector<int> overlay_peers(std::span<const int> first_ranks, int rank) {
  std::vector<int> ring;
  for (size_t other = 0; other < first_ranks.size(); ++other) {
    if (first_ranks[other] == static_cast<int>(other)) ring.push_back(static_cast<int>(other));
  }
  const auto self = std::find(ring.begin(), ring.end(), rank);
  if (self == ring.end()) return {};
  const auto at = static_cast<size_t>(self - ring.begin());
  std::set<int> peers;
  for (size_t distance = 1; distance < ring.size(); distance *= 2) {
    peers.insert(ring[(at + distance) % ring.size()]);
    peers.insert(ring[(at + ring.size() - distance) % ring.size()]);
  }
  return {peers.begin(), peers.end()};
}

}  // namespace tutti::comm
