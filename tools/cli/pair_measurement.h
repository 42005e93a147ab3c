// Latency and bandwidth between two ranks of a job, and between every two of its hosts.
//
// Threads: as run_ranks(). Units: bytes, nanoseconds, bytes per nanosecond. Errors: PerfError.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/collectives/communicator.h"
#include "perf/collectives/crew.h"
#include "tools/topology/link_table.h"

namespace tutti::cli {

/// Those that measure, one rank for each host; or all, where there is one host.
struct MeasuredEnds {
  std::vector<std::string> names;  // as cluster files know hosts
  std::vector<int> ranks;
  bool are_hosts = false;
};

/// Collective. `option`: for messages, the one that asks for it.
MeasuredEnds ends_of(const perf::RankContext& context, size_t most, const std::string& option);

class PairMeasurement {
 public:
  static constexpr size_t kShort = 8;
  static constexpr size_t kLong = size_t{4} << 20;

  /// Of both ends exactly one `leads`.
  PairMeasurement(const perf::Communicator& communicator, int peer, bool leads)
      : communicator_(communicator), peer_(peer), leads_(leads), buffer_(kLong) {}

  double latency_ns() { return run(kShort, 5, 40); }
  double bytes_per_ns() { return static_cast<double>(kLong) / run(kLong, 3, 2); }

 private:
  double run(size_t bytes, int batches, int round_trips);
  void round_trip(size_t bytes);
  void send(size_t bytes);

  const perf::Communicator& communicator_;
  const int peer_;
  const bool leads_;
  std::vector<char> buffer_;
};

/// Collective: in each round every end meets one other, all pairs at the same time.
topology::LinkTable measure_all_pairs(const perf::RankContext& context, const MeasuredEnds& ends);

}  // namespace tutti::cli
