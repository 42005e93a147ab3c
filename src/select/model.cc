#include "src/select/model.h"

#include <algorithm>

namespace tutti::select {

LinkModel link_of(const RankCosts& costs, const group::Reach& reach, const Crowd& crowd) {
  if (!reach.map) {
    return {.latency_ns = costs.stream_latency_ns + costs.network_latency_ns,
            .message_ns = costs.message_ns,
            .wire_ns_per_byte = costs.stream_ns_per_byte};
  }
  const int cores = std::max(1, crowd.cores);
  const double share = std::max(1.0, static_cast<double>(crowd.ranks) / cores);
  return {.latency_ns = crowd.ranks > cores ? costs.turn_ns * share : costs.signal_latency_ns,
          .message_ns = costs.signal_ns * share,
          .moved_ns_per_byte = costs.copy_ns_per_byte,
          .work_ns_per_byte = costs.copy_ns_per_byte / cores};
}

LinkModel link_of(const Model& model, const group::Level& level, const Crowd& crowd) {
  LinkModel link = link_of(model.costs, level.reach, crowd);
  if (level.reach.map) {
    link.latency_ns += level.latency_ns;
    return link;
  }
  if (level.latency_ns > 0) link.latency_ns = model.costs.stream_latency_ns + level.latency_ns;
  for (const LevelRates& measured : model.levels) {
    if (measured.name != level.name) continue;
    if (measured.latency_ns > 0) link.latency_ns = measured.latency_ns;
    if (measured.ns_per_byte > 0) link.wire_ns_per_byte = measured.ns_per_byte;
  }
  return link;
}

}  // namespace tutti::select
