// One rank's way through a job, on the public API alone.
#pragma once

#include "tests/random/job.h"
#include "tests/support/team.h"

namespace tutti::random_calls {

/// Reports what fails to `member`. Threads: one per rank.
void run_rank(const Job& job, testing_support::Member& member);

/// Runs all ranks of the job. A job that does not end in time is killed and reported.
testing_support::TeamResult run_job(const Job& job);

}  // namespace tutti::random_calls
