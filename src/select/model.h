// The beliefs of selection about ranks and links: a value that is equal on all ranks of a group.
//
// Threads: values. Units: nanoseconds, and nanoseconds per byte. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/codecs/measured.h"
#include "src/group/view.h"
#include "src/select/crowd_times.h"
#include "src/select/vendor_times.h"

namespace tutti::select {

/// The times that ranks and their kernels take, whatever network is between them.
struct RankCosts {
  // Where memory is mapped, with a core for every rank.
  double signal_latency_ns = 200;
  double signal_ns = 50;  // of the sender, for each message
  double copy_ns_per_byte = 0.09;
  // With more ranks than cores every wait is a turn of the scheduler.
  double turn_ns = 4'000;
  // By streams.
  double stream_latency_ns = 8'000;  // one way, beside the network's
  double message_ns = 2'000;         // of the sender, for each message
  double stream_ns_per_byte = 0.7;   // of a rank
  // One way, of a network of which nobody said anything.
  double network_latency_ns = 12'000;
  bool operator==(const RankCosts&) const = default;
};

/// As measured between ranks that talk by a level; 0: it was not.
struct LevelRates {
  std::string name;
  double latency_ns = 0;  // one way, with all that the ranks' kernels take
  double ns_per_byte = 0;
  bool operator==(const LevelRates&) const = default;
};

/// The costs of streams of devices and of the links between devices: an H100's unless somebody says
/// otherwise (device_models/h100.json, which says where each number is from).
struct DeviceCosts {
  // Of the host, us: Tutti's own part of a call; a copy by a call of the driver of its own; a list
  // of copies, and each copy of one; a group of waits and writes; a launch of a kernel; an event
  // and a wait for it; a run of a graph of one call.
  double own_call_us = 6.5, copy_call_us = 4.7, list_call_us = 6, listed_copy_us = 0.3;
  double group_call_us = 1.6, kernel_call_us = 4.1, event_us = 0.4, graph_launch_us = 5;
  // Of the device, us: a wait that is satisfied; a write; a copy, or list, and a kernel but for
  // their bytes; a function of the host in a graph; until a stream goes on that waited for another.
  double wait_us = 1.2, write_us = 1, copy_us = 3, kernel_us = 5, host_function_us = 10;
  double hand_over_us = 6;
  // us for 1e6 bytes: a copy within a device; over a direct link (NVLink), over the bus, and
  // between NUMA nodes; a kernel of 16 blocks that reads another device; what crosses a link, one
  // way, while the switch between devices folds and stores to all.
  double local_us_per_mb = 0.77, link_us_per_mb = 2.63, bus_us_per_mb = 20, nodes_us_per_mb = 28;
  double fetch_us_per_mb = 3.45, multicast_us_per_mb = 3.24;
  // Of kernels that are a call by themselves: us until a peer has seen what one stores there, and
  // for 1e6 bytes of messages that a rank gets.
  double line_us = 1.5, line_us_per_mb = 8;
  bool operator==(const DeviceCosts&) const = default;
};

/// How the devices of a group reach each other: the longest way between any two.
enum class DeviceWay : uint8_t { kDirect, kBus, kBetweenNodes };

struct Model {
  RankCosts costs;
  std::vector<LevelRates> levels;  // those that something is known of
  DeviceCosts devices{};
  std::vector<CrowdTimes> crowds{};   // of ranks of one host that have measured themselves
  std::vector<VendorTimes> vendor{};  // calls by NCCL; empty: nobody has measured them
  std::vector<codecs::MeasuredCodec> codecs{};  // by the group's ranks when they met
  bool operator==(const Model&) const = default;
  /// Null where such a crowd has measured nothing.
  const CrowdTimes* crowd_of(int ranks, int cores) const;
};

/// How the ranks of a host share its cores.
struct Crowd {
  int ranks = 1;
  int cores = 1;
};

/// The costs of a message, and of a byte of it.
struct LinkModel {
  double latency_ns = 0;
  double message_ns = 0;         // the sender's work per message
  double wire_ns_per_byte = 0;   // of the busiest rank's bytes
  double moved_ns_per_byte = 0;  // of the busiest rank's copies
  double work_ns_per_byte = 0;   // of all copies of a host's ranks
  double one_way_ns = 0;         // latency where messages flow one way; 0: as any other
  // Of messages that cross memory of the host: in one slice nothing else goes on meanwhile.
  double crossing_ns_per_byte = 0;
  std::vector<CopyRate> rates{};  // measured; empty: copies of all sizes cost the same
};

/// Of a link by what it can: one that maps memory, among such a crowd, or a stream.
LinkModel link_of(const RankCosts& costs, const group::Reach& reach, const Crowd& crowd);
/// Between streams of devices of a host, each of which copies and folds by itself. A message is a
/// wait, and a copy of a list or a source of a fold: the calls of the driver are for each step.
LinkModel link_of(const DeviceCosts& costs, DeviceWay way);
/// The same where the switch between them folds (plan/shared_places.h); by direct links alone.
LinkModel switch_link_of(const DeviceCosts& costs);
/// A link between hosts, whose messages are those of devices: at either end they cross a bounce
/// buffer in memory of the host. Streams copy to it and from it over the bus, one slice while
/// another is on the wire, and each end waits for the other one's word.
LinkModel through_host(LinkModel link, const DeviceCosts& costs);
/// Between kernels that run a call by themselves, each of which stores lines at its peers'; and how
/// long such a call takes beside its messages.
LinkModel kernel_link_of(const DeviceCosts& costs, DeviceWay way);
double kernel_call_ns(const DeviceCosts& costs);
/// Of a level: what was measured, else what the group says of its network.
LinkModel link_of(const Model& model, const group::Level& level, const Crowd& crowd);

}  // namespace tutti::select
