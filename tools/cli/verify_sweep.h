// Verifies many (algorithm, parameters, placement) at once and sums up what is true of all of them.
//
// Threads: sweep() starts and joins its own; everything it calls is pure.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/schedule/algorithm.h"
#include "src/schedule/text.h"
#include "src/schedule/verify.h"

namespace tutti::cli {

struct SweepOptions {
  std::vector<int> ranks;    // all of these; roots, lanes, folds, trees and placements follow
  std::vector<int> samples;  // these too, where affordable
  bool deep = false;         // every sample and every number of lanes
  unsigned threads = 1;
};

/// The findings for one algorithm.
struct Findings {
  const schedule::Algorithm* algorithm = nullptr;
  uint64_t cases = 0;
  uint64_t skipped = 0;         // samples that only --deep looks at, or that are too much for it
  std::set<int> ranks[2];       // verified: separate, in place
  uint32_t least_credit = 0;    // of the case that needs most
  int first_not_canonical = 0;  // the least number of ranks on one node, tree folds; 0: none
  bool agrees = true;
  bool forwards = false;
  bool needs_equal_counts = false;
  int failed_ranks = 0;  // the least number of ranks that is refused; 0: none
  std::string failure;   // its counter-example
};

std::vector<Findings> sweep(std::span<const schedule::Algorithm* const> algorithms,
                            const SweepOptions& options);

/// All ranks' schedules.
schedule::ScheduleSet generate(const schedule::Algorithm& algorithm,
                               const schedule::Parameters& parameters);

/// "broadcast/binomial, 5 ranks, root 1, 2 lanes, tree folds", and the tree of nodes if there is
/// one
std::string describe(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters);

/// The parameters that make a difference at this number of ranks.
std::vector<schedule::Parameters> parameters_of(const schedule::Algorithm& algorithm, int ranks,
                                                bool all_lanes);

}  // namespace tutti::cli
