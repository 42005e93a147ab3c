// Whether the verifier sees what it should: schedules with one thing changed, and a plain
// interpreter that knows nothing of the verifier to judge what it lets pass.
//
// Threads: pure. Errors: run_schedule() may only be given schedules that verify() accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/text.h"
#include "src/schedule/verify.h"

namespace tutti::schedule {

struct RunOptions {
  Placement placement = Placement::kSeparate;
  uint64_t count = 1;
  uint64_t slices = 1;
  uint64_t quantum = 1;     // slices are cut at multiples of it
  uint32_t credit = 1;      // as in verify.h
  bool one_thread = false;  // a rank runs its steps in array order; else every lane by itself
  uint64_t seed = 0;        // of the inputs and of the interleaving
};

/// Runs all ranks on numbers, lanes in a random order, and compares the outputs.
Status run_schedule(const Shape& shape, std::span<const Schedule> schedules,
                    const RunOptions& options);

/// Whether two blocks of a rank are the same elements whatever the count, as the interpreter places
/// them: in place, input and output overlap.
bool same_elements(const ScheduleSet& set, Placement placement, int rank, Block a, Block b);

struct Mutant {
  std::string description;  // "rank 1, step 3 (send ...): dropped"
  Schedule schedule;        // of the one rank that changed
};

/// All single changes, at every position: a step dropped, doubled or swapped with the next of its
/// lane; another peer, block, lane or kind; an `after` or the last scratch block dropped. With
/// `order_matters` also the order of sources and the fold. Changes that cannot matter by
/// construction are left out: swapping steps that share neither data nor channels nor can wait,
/// repeating a local copy, swapping the sides of a pair, dropping the copy of a block onto itself
/// that no `after` names, another name of the same elements.
void for_each_mutant(const ScheduleSet& set, Placement placement, bool order_matters,
                     const std::function<void(const Mutant&)>& visit);

struct MutantReport {
  uint64_t refused = 0;                 // by verify(), or not what the original's verdict promises
  std::vector<std::string> equivalent;  // accepted, and rightly: the outputs are right
  std::vector<std::string> survived;    // accepted wrongly: a hole in the verifier
};

/// `set` must verify.
MutantReport try_mutants(const ScheduleSet& set, Placement placement);

}  // namespace tutti::schedule
