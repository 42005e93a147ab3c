// The findings of a simulation, for people and for programs.
//
// Threads: pure; equal outcomes give equal bytes. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "src/sim/simulation.h"

namespace tutti::sim {

/// Where the time of the last rank went.
struct PathPart {
  std::string what;  // "rack messages", "host signals", "work of ranks"
  uint64_t hops = 0;
  Time wire = 0;     // from being ready to the last byte's leaving: the queue, and the bytes
  Time latency = 0;  // and what the rank needs to go on
};
struct PathSummary {
  std::vector<PathPart> parts;  // from the innermost level
  Time work = 0;                // of ranks, between hops
};
PathSummary summarize(const Outcome& outcome, const Network& network);

/// The link that was nearest to carrying all it can, and how near; null where none is bounded.
struct Busiest {
  const LinkLoad* load = nullptr;
  double share = 0;  // of its capacity, over the whole time
};
Busiest busiest(const Outcome& outcome);

/// Several lines, each ends: time, folding, bytes by level, links, critical path, who is stuck.
/// `hops`: so many of the last hops of the path are listed.
std::string describe(const Outcome& outcome, const Network& network, size_t hops);

/// The traced ranks for ui.perfetto.dev: a process for each rank, a thread for each lane, and one
/// for the messages that are on their way. Times are microseconds.
std::string perfetto_json(const Outcome& outcome, const Network& network);

/// "1.5 ms", "2.25 GB": three digits and a unit.
std::string text_of_time(Time time);
std::string text_of_bytes(double bytes);

}  // namespace tutti::sim
