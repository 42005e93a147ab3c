// Measures one call of Tutti on one rank: warms up, times it, checks it.
#pragma once

#include <cstddef>
#include <optional>

#include "perf/collectives/communicator.h"
#include "perf/collectives/options.h"
#include "perf/collectives/workload.h"

namespace tutti::perf {

/// Half a line of the table. The same on every rank.
struct Cell {
  double us = 0;                   // over the ranks as -a says
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;        // GB/s
  std::optional<size_t> wrong;     // elements on all ranks; empty: not checked
  size_t iterations = 0;
  // With --percentiles: of the iterations, each with the time of its slowest rank.
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

class Measurement {
 public:
  /// Collective.
  Measurement(const RankContext& context, const PerfOptions& options);
  /// Collective.
  Cell run(const PreparedCase& one);

 private:
  double timed(const PreparedCase& one, Cell& cell);
  size_t check(const PreparedCase& one);
  double over_ranks(double own_us);
  void read_percentiles(Cell& cell);

  const RankContext context_;
  const PerfOptions& options_;
  Communicator communicator_;
  Workload workload_;
};

}  // namespace tutti::perf
