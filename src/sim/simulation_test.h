// For the simulator's tests: networks, calls, and what they give.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/registry/algorithms.h"
#include "src/sim/simulation.h"

namespace tutti::sim::tests {

/// Hosts of one rank each on one switch, whose ports carry `bytes_per_ns`.
inline Network star(uint32_t hosts, double bytes_per_ns, double latency_ns) {
  return std::move(uniform_network({{"host", 1, 0, 0, true, 0},
                                    {"switch", hosts, latency_ns, bytes_per_ns, false, 0}}))
      .value();
}

inline Experiment experiment(schedule::Collective collective, const std::string& algorithm,
                             const Network& network, uint64_t bytes) {
  Experiment made;
  made.job.algorithm = registry::find(collective, algorithm);
  made.job.parameters.ranks = network.ranks();
  made.job.request.count = bytes / 4;
  return made;
}

/// Nothing but links costs anything, and a message goes once both ends have posted it.
inline Costs free_of_charge() {
  Costs costs;
  costs.copy_ns_per_byte = costs.signal_ns = costs.read_ns = costs.message_ns = 0;
  costs.stream_latency_ns = costs.header_bytes = costs.segment_overhead_bytes = 0;
  costs.socket_bytes = 0;
  return costs;
}

inline Outcome run(const Experiment& experiment, const Network& network) {
  Result<Outcome> outcome = simulate(experiment, network);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return outcome.ok() ? std::move(outcome).value() : Outcome{};
}

}  // namespace tutti::sim::tests
