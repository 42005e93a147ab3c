#include "src/arrange/prices.h"

#include <algorithm>

namespace tutti::arrange {

const char* name_of(ExchangeKind kind) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                    "message"};
  return kNames[static_cast<size_t>(kind)];
}

double share_of_link(const EvenCluster& cluster, const Spread& group, size_t level) {
  const double link = cluster.levels[level].bytes_per_ns;
  if (level == 0) return link;
  return link * group.within(level - 1) / cluster.places_of(level - 1);
}

namespace {

// The bytes that leave a child with `inside` of the group's ranks, of which there are `children`.
double bytes_out(const GroupExchange& exchange, double inside, double children) {
  const double others = (children - 1) / children;
  switch (exchange.kind) {
    case ExchangeKind::kAllReduce:
      return 2 * others * exchange.bytes;
    case ExchangeKind::kReduceScatter:
    case ExchangeKind::kAllGather:
      return others * exchange.bytes;
    case ExchangeKind::kAllToAll:
      return inside * others * exchange.bytes;
    case ExchangeKind::kMessage:
      break;
  }
  return exchange.bytes;
}

}  // namespace

double busiest_link_ns(const EvenCluster& cluster, const GroupExchange& exchange,
                       double part_of_level_0) {
  const bool is_message = exchange.kind == ExchangeKind::kMessage;
  const double ranks = is_message ? 0 : exchange.group.degree();
  double inside = 1, places = 1, longest = 0;
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    const double children = ranks / inside;
    if (is_message ? level > exchange.level : children <= 1) break;
    const double share = cluster.levels[level].bytes_per_ns * inside / places;
    const double ns = bytes_out(exchange, inside, children) / share;
    longest = std::max(longest, level == 0 ? ns * part_of_level_0 : ns);
    inside *= exchange.group.at[level];
    places *= cluster.levels[level].size;
  }
  return longest;
}

double IdealPrices::ns(const GroupExchange& exchange) {
  const bool is_message = exchange.kind == ExchangeKind::kMessage;
  if (!is_message && exchange.group.degree() == 1) return 0;
  const size_t outermost = is_message ? exchange.level : exchange.group.outermost();
  const double waits = exchange.kind == ExchangeKind::kAllReduce ? 2 : 1;
  return busiest_link_ns(cluster_, exchange, 1) + waits * cluster_.levels[outermost].latency_ns;
}

}  // namespace tutti::arrange
