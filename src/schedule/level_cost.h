// The cost of an algorithm at each level of the tree in which the ranks live, counted from its
// schedules, so that no author has to declare it.
//
// A message belongs to the level of its two ends.
// Threads: pure.
// Units:   bytes are in units of one `count`.
// Errors:  schedules that do not match themselves are kInternalError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/algorithm.h"
#include "src/schedule/rank_traffic.h"

namespace tutti::schedule {

struct LevelCost {
  uint32_t depth = 0;  // messages of this level in the chain that has most of them
  // The most of them between the first and the last step of one rank in one lane: what it waits
  // for before it can begin again.
  uint32_t span = 0;
  double path = 0;        // the most bytes of this level in one chain
  uint32_t messages = 0;  // of this level, sent or received by the busiest rank
  double bytes = 0;       // likewise
  double moved = 0;       // published to and received from this level by the busiest rank
  double work = 0;        // the same of all ranks of the busiest host
};

/// Of all ranks, too.
struct LevelCounts {
  std::vector<LevelCost> costs;                   // by level
  std::vector<std::vector<RankTraffic>> traffic;  // by rank and level
};

std::vector<Schedule> schedules_of(const Algorithm& algorithm, const Parameters& parameters);

/// Runs the schedules of all ranks on counters: O(all steps * levels).
Result<LevelCounts> count_traffic(const Shape& shape, std::vector<Schedule> schedules,
                                  const LevelMap& map);
Result<std::vector<LevelCost>> count_by_level(const Shape& shape, std::vector<Schedule> schedules,
                                              const LevelMap& map);
Result<std::vector<LevelCost>> count_by_level(const Algorithm& algorithm,
                                              const Parameters& parameters, const LevelMap& map);

}  // namespace tutti::schedule
