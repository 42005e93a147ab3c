// The ranks of a job, on the public API alone.
#pragma once

#include "tests/random/job.h"
#include "tests/random/library.h"
#include "tests/support/team.h"

namespace tutti::random_calls {

/// Runs all ranks of the job. A job that does not end in time is killed and reported. `fault` is
/// asked for every rank.
testing_support::TeamResult run_job(const Job& job, const Fault& fault = {});

}  // namespace tutti::random_calls
