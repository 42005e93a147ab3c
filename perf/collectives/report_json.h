// The results as JSON. The names are those of nccl-tests' files (format 3) where it has them;
// docs/perf_results.schema.json describes all of it.
#pragma once

#include <string>

#include "perf/collectives/report.h"

namespace tutti::perf {

/// Writes the file that was asked for, if one was. Errors: PerfError.
void write_json(const PerfOptions& options, const Results& results);

/// Whether a variable of the environment may be written to a file: ours and nccl-tests', without
/// those that hold keys or ids.
bool may_be_told(const std::string& variable);

}  // namespace tutti::perf
