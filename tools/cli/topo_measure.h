// `tutti topo --measure`: latency and bandwidth between every two hosts of a job.
//
// Errors: PerfError. Threads: as run_ranks().
#pragma once

namespace tutti::cli {

struct MeasureOptions {
  int ranks = 2;       // that are started here where no launcher started any
  bool again = false;  // also where a table of these hosts is kept
};

/// Returns the exit status.
int measure_links(const MeasureOptions& options);

}  // namespace tutti::cli
