#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/routed.h"

namespace tutti::runtime {
namespace {

/// The shortest sequence whose steps in a ring of so many ranks hide their transfers.
int64_t shortest(const ZoneCost& cost, int64_t ranks, const LinkClass& link) {
  const double tokens = static_cast<double>(ranks) *
                        static_cast<double>(cost.keys_and_values.value) /
                        (cost.pair_ns * link.bytes_per_ns);
  return tokens < 0x1p62 ? static_cast<int64_t>(std::ceil(tokens)) : kNoLimit;
}

}  // namespace

ZoneBounds zone_bounds(const ZoneCost& cost) {
  require(std::isfinite(cost.pair_ns) && cost.pair_ns > 0, "a pair of tokens takes ", cost.pair_ns,
          " ns; give more than 0");
  require(cost.keys_and_values > Bytes(0), "keys and values of a token have ",
          cost.keys_and_values.value, " bytes; give 1 or more");
  for (const LinkClass& link : {cost.intra, cost.nic}) {
    require(std::isfinite(link.bytes_per_ns) && link.bytes_per_ns > 0, "a link has ",
            link.bytes_per_ns, " GB/s; give more than 0");
  }
  require(cost.ranks_per_node >= 1 && cost.nodes >= 1, cost.nodes, " nodes of ",
          cost.ranks_per_node, " ranks; give 1 or more of each");
  ZoneBounds bounds{kNoLimit, kNoLimit};
  if (cost.ranks_per_node > 1) bounds.node = shortest(cost, cost.ranks_per_node, cost.intra);
  if (cost.nodes > 1) {
    bounds.between = shortest(cost, int64_t{cost.ranks_per_node} * cost.nodes, cost.nic);
  }
  return bounds;
}

Zone zone_of(int64_t length, const ZoneBounds& bounds) {
  require(length >= 0, "a sequence has ", length, " tokens; give 0 or more");
  if (length >= bounds.between) return Zone::kBetween;
  return length >= bounds.node ? Zone::kNode : Zone::kLocal;
}

std::vector<int> zone_order(std::span<const int64_t> lengths, const ZoneBounds& bounds) {
  std::vector<int> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const int64_t one = lengths[at(a)], other = lengths[at(b)];
    const Zone its = zone_of(one, bounds), others = zone_of(other, bounds);
    return its != others ? its > others : one > other;
  });
  return order;
}

}  // namespace tutti::runtime
