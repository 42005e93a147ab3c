// The beliefs of selection about ranks and links: a value that is equal on all ranks of a group.
//
// Threads: values. Units: nanoseconds, and nanoseconds per byte. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "src/group/view.h"

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

struct Model {
  RankCosts costs;
  std::vector<LevelRates> levels;  // those that something is known of
  bool operator==(const Model&) const = default;
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
};

/// Of a link by what it can: one that maps memory, among such a crowd, or a stream.
LinkModel link_of(const RankCosts& costs, const group::Reach& reach, const Crowd& crowd);
/// Of a level: what was measured, else what the group says of its network.
LinkModel link_of(const Model& model, const group::Level& level, const Crowd& crowd);

}  // namespace tutti::select
