// Measures one call of Tutti on one rank: warms up, times it, checks it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "perf/collectives/baseline.h"
#include "perf/collectives/communicator.h"
#include "perf/collectives/finding.h"
#include "perf/collectives/options.h"
#include "perf/collectives/statistics.h"
#include "perf/collectives/timed_loop.h"
#include "perf/collectives/workload.h"

namespace tutti::perf {

/// Times of the single iterations, as far as there was room for them.
struct IterationTimes {
  std::vector<std::vector<double>> of_rank_us;  // [rank][iteration]
  std::vector<double> slowest_us;               // [iteration]
  Summary all;
  Summary kept;  // without those that -K leaves out
};

/// Half a line of the table. The same on every rank.
struct Cell {
  double us = 0;                   // over the ranks as -a says
  double queued_us = 0;            // with -C: until the calls had returned, likewise
  double device_us = 0;            // with --device: by the stream's clock, likewise
  double predicted_us = 0;         // with --predicted: what rank 0 expected of a call
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;        // GB/s
  double nccl_us = 0;              // with --vs nccl: NCCL's median; 0: it has no such call
  double nccl_ratio = 0;           // of it to Tutti's, of rounds that took turns
  bool checked = false;            // -c asks for it, and there are elements
  std::optional<Finding> wrong;    // empty although checked: right
  size_t iterations = 0;
  std::optional<IterationTimes> times;

  size_t wrong_elements() const { return wrong ? wrong->wrong_elements : 0; }
};

/// Resident memory of the largest process, in bytes.
struct MemoryUse {
  double initialization = 0;  // what making the communicator added
  double buffers = 0;         // then the buffers
  double collectives = 0;     // then the calls
};

/// So many calls move two passes through the staging ring of every rank, also of one that stages
/// only its own block. At most kMostWarmUpCalls.
inline constexpr size_t kMostWarmUpCalls = 4096;
size_t warm_up_calls(size_t bytes, int ranks);

class Measurement {
 public:
  /// Collective.
  Measurement(const RankContext& context, const Subgroup& group, const PerfOptions& options);
  /// Collective, once, before the sweep: untimed calls of the sizes and roots of these cases, so
  /// that no line pays for memory of the library that nobody has touched before. Returns how many
  /// calls: none with -w 0, and the same on every rank.
  size_t warm_up(const std::vector<Case>& cases);
  /// Collective.
  Cell run(const PreparedCase& one);
  /// Collective. Of everything since the construction.
  MemoryUse memory() const;
  /// With --device.
  int device_number() const { return communicator_.device()->number(); }
  Choice choice(const PreparedCase& one) const { return choice_of(communicator_, one.operation); }

 private:
  size_t warm_up_one(const Case& one, double& left_us);
  LoopTime timed(const PreparedCase& one, const Operation& operation, Cell& cell);
  void begin_on_device();
  void finish();
  void take_turns(const PreparedCase& one, const Operation& operation, Cell& cell);
  void check_nccl(const PreparedCase& one, const Operation& operation);
  double predict(const PreparedCase& one, const Operation& operation);
  std::optional<Finding> check(const PreparedCase& one, const Operation& operation);
  double over_ranks(double own_us) const;
  IterationTimes gather(const std::vector<double>& own) const;

  const RankContext context_;
  const Subgroup group_;
  const PerfOptions& options_;
  const double resident_at_start_;
  Communicator communicator_;
  double device_us_ = 0;  // that the stream has worked, since it was last set to 0
  bool times_device_ = false;
  const double resident_with_communicator_;
  std::unique_ptr<Baseline> nccl_;  // with --vs nccl
  Workload workload_;
  const double resident_with_buffers_;
};

}  // namespace tutti::perf
