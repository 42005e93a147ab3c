#include "src/select/model.h"

#include <algorithm>

namespace tutti::select {

const CrowdTimes* Model::crowd_of(int ranks, int cores) const {
  const auto found = std::find_if(crowds.begin(), crowds.end(), [&](const CrowdTimes& one) {
    return one.ranks == ranks && one.cores == cores;
  });
  return found == crowds.end() ? nullptr : &*found;
}

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

namespace {

// Received bytes cross, and all that a rank publishes is copied within its device.
LinkModel stream_link_of(const DeviceCosts& costs, double across) {
  constexpr double kNsPerUs = 1e3, kNsPerByte = 1e-3;  // of 1 us, and of 1 us for 1e6 bytes
  const double host = costs.list_call_us + costs.group_call_us;
  const double device = costs.hand_over_us + costs.copy_us + costs.write_us;
  return {.latency_ns = std::max(host, device) * kNsPerUs,
          .message_ns = (costs.wait_us + costs.listed_copy_us) * kNsPerUs,
          .wire_ns_per_byte = std::max(0.0, across - costs.local_us_per_mb) * kNsPerByte,
          .moved_ns_per_byte = costs.local_us_per_mb * kNsPerByte};
}

}  // namespace

LinkModel link_of(const DeviceCosts& costs, DeviceWay way) {
  return stream_link_of(costs, way == DeviceWay::kDirect ? costs.link_us_per_mb
                               : way == DeviceWay::kBus  ? costs.bus_us_per_mb
                                                         : costs.nodes_us_per_mb);
}

LinkModel switch_link_of(const DeviceCosts& costs) {
  return stream_link_of(costs, costs.multicast_us_per_mb);
}

// The sender's stream copies, writes, and is seen by the host at once, which looks; the receiver's
// stream waits for the host's word, and copies or folds. A rank sends about as many messages as it
// receives. Whatever joins the devices, the host's memory is behind the bus.
LinkModel through_host(LinkModel link, const DeviceCosts& costs) {
  constexpr double kNsPerUs = 1e3, kNsPerByte = 1e-3;
  const double bus = costs.bus_us_per_mb * kNsPerByte;
  link.latency_ns += (2 * costs.copy_us + costs.write_us + costs.hand_over_us) * kNsPerUs;
  link.message_ns += ((costs.write_us + costs.wait_us) / 2 + costs.listed_copy_us) * kNsPerUs;
  link.wire_ns_per_byte = std::max(link.wire_ns_per_byte, bus);
  link.crossing_ns_per_byte = 2 * bus;
  return link;
}

// Half of what crosses are numbers of calls.
LinkModel kernel_link_of(const DeviceCosts& costs, DeviceWay way) {
  constexpr double kNsPerUs = 1e3, kNsPerByte = 1e-3, kMessageNs = 50;
  const double across = way == DeviceWay::kDirect ? 0
                        : way == DeviceWay::kBus  ? 2 * costs.bus_us_per_mb
                                                  : 2 * costs.nodes_us_per_mb;
  return {.latency_ns = costs.line_us * kNsPerUs,
          .message_ns = kMessageNs,
          .wire_ns_per_byte = std::max(costs.line_us_per_mb, across) * kNsPerByte};
}

double kernel_call_ns(const DeviceCosts& costs) {
  constexpr double kNsPerUs = 1e3;
  return std::max(costs.kernel_call_us, costs.kernel_us) * kNsPerUs;
}

namespace {

// Longer calls than were measured leave the caches: from so many bytes on a byte costs what it does
// in memory, and both ways of copying become slower alike.
std::vector<CopyRate> rates_of_all_sizes(const CrowdTimes& crowd, const RankCosts& costs) {
  constexpr double kMemoryBytes = 32 << 20;
  std::vector<CopyRate> rates = rates_of(crowd);
  if (rates.empty() || rates.back().moved >= kMemoryBytes) return rates;
  const CopyRate last = rates.back();
  const double slower = std::max(1.0, costs.copy_ns_per_byte / last.staged_ns_per_byte);
  rates.push_back(
      {kMemoryBytes, slower * last.staged_ns_per_byte, slower * last.single_ns_per_byte});
  return rates;
}

}  // namespace

LinkModel link_of(const Model& model, const group::Level& level, const Crowd& crowd) {
  LinkModel link = link_of(model.costs, level.reach, crowd);
  if (level.reach.map) {
    if (const CrowdTimes* measured = model.crowd_of(crowd.ranks, crowd.cores)) {
      // A step has a message for every other rank; the rank's own part is not in what was measured.
      link.latency_ns = measured->step_ns + model.costs.signal_ns;
      link.one_way_ns = measured->one_way_ns + model.costs.signal_ns;
      link.message_ns = 0;
      link.rates = rates_of_all_sizes(*measured, model.costs);
    }
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
