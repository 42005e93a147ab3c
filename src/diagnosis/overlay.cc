#include "src/diagnosis/overlay.h"

#include <algorithm>
#include <set>

namespace tutti::diagnosis {

std::vector<int> overlay_peers(std::span<const int> ring, int rank) {
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

}  // namespace tutti::diagnosis
