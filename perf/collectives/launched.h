// `tutti perf` as one process of a job that a launcher started: torchrun, mpirun, srun.
#pragma once

#include <optional>

#include "perf/collectives/crew.h"
#include "src/bootstrap/launch/launcher.h"

namespace tutti::perf {

/// What a launcher says; nothing if none started this process, or only this one. Errors: PerfError.
std::optional<bootstrap::Launch> this_launch();

/// Runs the ranks of this process, which is number `process` of the job, as run_process(). Errors:
/// PerfError if the processes do not meet.
int run_launched(const CrewShape& shape, int process, const RankBody& body);

}  // namespace tutti::perf
