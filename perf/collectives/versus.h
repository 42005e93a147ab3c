// `tutti perf COLLECTIVE --vs ...`: Tutti against configurations of MPI, and `tutti perf compare`.
#pragma once

#include <string>
#include <vector>

#include "perf/collectives/options.h"

namespace tutti::perf {

/// Launches tutti_perf_mpi once per configuration, one after the other, and prints the tables.
/// `arguments` is the command line: the collective and the flags, which the program gets too.
/// Returns the greatest exit code of the configurations; where one fails, the others are still
/// compared.
int versus_main(const PerfOptions& options, const std::vector<std::string>& arguments);

/// argv[1...] are files of --raw. Rounds of several files are pooled.
int compare_main(int argc, char** argv);

}  // namespace tutti::perf
