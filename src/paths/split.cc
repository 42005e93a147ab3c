#include "src/paths/split.h"

#include <numeric>
#include <string>

namespace tutti::paths {

Result<Split> minimal_split(uint32_t flows, uint32_t uplinks, uint64_t bytes,
                            const SplitLimits& limits) {
  if (flows == 0 || uplinks == 0) {
    return Status::invalid_argument("a split needs at least one flow and one up-link, not " +
                                    std::to_string(flows) + " and " + std::to_string(uplinks));
  }
  const uint32_t common = std::gcd(flows, uplinks);
  const uint32_t pieces = uplinks / common;
  const bool affordable =
      bytes / pieces >= limits.least_piece && uint64_t{flows} * pieces <= limits.most_pieces;
  if (affordable) return Split{pieces, static_cast<double>(flows) / uplinks, true};
  return Split{1, static_cast<double>((flows + uplinks - 1) / uplinks), pieces == 1};
}

Result<std::vector<LinkShare>> proportional_split(const std::vector<double>& bytes,
                                                  const std::vector<double>& capacities) {
  double total = 0, capacity = 0;
  for (const double flow : bytes) {
    if (!(flow >= 0)) return Status::invalid_argument("a flow of a negative number of bytes");
    total += flow;
  }
  for (const double link : capacities) {
    if (!(link >= 0)) return Status::invalid_argument("an up-link of negative capacity");
    capacity += link;
  }
  if (!(capacity > 0)) return Status::invalid_argument("all up-links are dead");
  std::vector<LinkShare> shares;
  size_t link = 0;
  double room = total * capacities[0] / capacity;
  for (uint32_t flow = 0; flow < bytes.size(); ++flow) {
    double left = bytes[flow];
    while (left > 0) {
      // The last living up-link takes the rest that rounding leaves of the rooms before it.
      bool is_last = true;
      for (size_t next = link + 1; next < capacities.size(); ++next) {
        is_last = is_last && capacities[next] == 0;
      }
      const double piece = is_last && capacities[link] > 0 ? left : std::min(left, room);
      if (piece > 0) shares.push_back({flow, static_cast<uint32_t>(link), piece});
      left -= piece;
      room -= piece;
      if (left > 0) room = total * capacities[++link] / capacity;
    }
  }
  return shares;
}

}  // namespace tutti::paths
