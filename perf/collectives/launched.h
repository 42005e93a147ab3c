// `tutti perf` as one rank of a job that a launcher started: torchrun, mpirun, srun.
#pragma once

#include <optional>

#include "perf/collectives/crew.h"
#include "src/bootstrap/launch/launcher.h"

namespace tutti::perf {

/// What a launcher says; nothing if none started this process, or only this one. Errors: PerfError.
std::optional<bootstrap::Launch> this_launch();

/// Runs the body as this process's rank; the board is the launched communicator. As run_rank().
/// Errors: PerfError if the ranks do not meet.
int run_launched(const RankBody& body);

}  // namespace tutti::perf
