// The command line of `tutti sim`.
//
// Errors: PerfError says which argument is wrong, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/collective.h"
#include "src/sim/network.h"
#include "src/sim/simulation.h"

namespace tutti::cli {

struct SimOptions {
  perf::Collective collective = perf::Collective::kAllReduce;
  std::string name;  // of the collective
  std::string topology;
  uint64_t min_bytes = uint64_t{1} << 20, max_bytes = 0, factor = 4;
  std::string algorithm;  // "ring:2"; empty: chosen
  int root = 0;
  bool deterministic = false;
  std::string wire;  // as TUTTI_WIRE
  uint32_t calls = 1;
  bool in_place = false, registered = false;
  uint64_t ring_bytes = 4 << 20;
  bool unfolded = false, sampled = false;
  sim::Costs costs;
  std::vector<std::string> slow, delayed, lossy, dead;  // links
  std::vector<std::string> slow_ranks, dead_ranks;
  std::vector<int> traced;
  std::string trace, json, plot;
  sim::PathRule path_rule = sim::PathRule::kSprayed;
  uint32_t paths = 1;  // of an uplink
  size_t hops = 0;
  bool candidates = false;

  std::vector<uint64_t> sizes() const;
};

/// On --help and on mistakes says so and gives the exit status.
std::optional<SimOptions> parse_sim(int argc, const char* const* argv, int& exit_code);

/// The faults that the options ask for.
void add_link_faults(const SimOptions& options, sim::Network& network);
std::vector<sim::RankFault> rank_faults(const SimOptions& options);

}  // namespace tutti::cli
