// Puts a fault into the API that the ranks of random jobs use, and looks whether one of them finds
// it.
//
// Threads: one, which forks.
#pragma once

#include <string>

#include "tests/random/rank.h"

namespace tutti::random_calls {

inline constexpr uint64_t kPlantedJobs = 40;  // the first that finds the fault is the last

/// One of the jobs, of 2 or 3 ranks. `bounded`: a call that waits for ever ends after a while.
testing_support::TeamResult run_planted(uint64_t number, const Fault& fault, bool bounded);

/// Fails unless a job fails, with some of these words in its report.
void expect_found(const Fault& fault, const std::string& words);
/// The same for a fault by which ranks are in different calls, and may wait for ever.
void expect_different_calls(const Fault& fault);

}  // namespace tutti::random_calls
