// `tutti perf` and `tutti explain` as one process of a job that a launcher started: torchrun,
// mpirun, srun.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/crew.h"
#include "src/bootstrap/launch/launcher.h"

namespace tutti::perf {

/// The launcher's description of the job; nothing if no launcher started this process, or only this
/// one.
/// Errors: PerfError.
std::optional<bootstrap::Launch> this_launch();

/// A command line for parse_options(): the processes that a launcher started are the last word on
/// how many there are.
std::vector<std::string> arguments_of(int argc, char** argv,
                                      const std::optional<bootstrap::Launch>& launch);

/// Runs the ranks of this process, which is number `process` of the job, as run_process(). Errors:
/// PerfError if the processes do not meet.
int run_launched(const CrewShape& shape, int process, const RankBody& body);

/// As one process of the launched job, or of a crew of its own where nobody launched one. Errors:
/// as run_launched(), as run_crew().
int run_ranks(const CrewShape& shape, const std::optional<bootstrap::Launch>& launch,
              const RankBody& body);

}  // namespace tutti::perf
