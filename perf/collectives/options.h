// The options of `tutti perf`. The flags themselves are in flags.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/baseline.h"
#include "perf/collectives/collective.h"
#include "perf/collectives/communicator.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/datatypes.h"
#include "perf/collectives/host_list.h"

namespace tutti::perf {

struct SizeOptions {
  size_t min_bytes = 0;
  size_t max_bytes = 0;
  size_t step_bytes = size_t{1} << 20;
  double factor = 1;         // > 1: multiply instead of add
  std::vector<size_t> list;  // not empty: exactly these
};

enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

/// The waits after each call inside the timed loop. nccl-tests' -z 3 is `stepped`.
enum class Blocking { kNo = 0, kWaitAndBarrier = 1, kWait = 2 };

/// The parts of the report beyond nccl-tests' columns.
struct ReportOptions {
  bool percentiles = false;
  bool per_iteration = false;
  size_t skipped_samples = 0;  // of per_iteration
  bool processor_time = false;
  bool device_time = false;
  bool predicted = false;
  bool beside_nccl = false;  // NCCL itself is timed in turns with Tutti
  bool timestamps = false;
  bool memory = false;
  bool verbose = false;
  std::string json_file;
  std::string plot_file;

  bool samples() const { return percentiles || per_iteration; }
};

/// A wrong element on purpose, so that a test can see that checks find it.
struct PlantedFault {
  int rank = 0;
  size_t element = 0;
};

struct VersusOptions {
  std::vector<std::string> peers;  // empty: no comparison
  std::string raw_file;
  size_t rounds = 9;
  double round_ms = 2;      // at least
  std::string mpirun;       // empty: the launcher of each peer's MPI
  std::string program;      // empty: that of each peer's MPI beside this program
  std::string rounds_file;  // set for the MPI program: where it writes its rounds
  std::string configuration;
};

struct HostsOptions {
  std::vector<HostSlots>
      hosts;  // empty: the ranks are on this host, or a launcher has started them
  std::string launcher = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}";
  std::string program;  // on each of them; empty: the path of this one
};

struct PerfOptions {
  Collective collective = Collective::kAllReduce;
  SizeOptions sizes;
  size_t iterations = 20;  // 0: as many as take 2 ms
  size_t warmup = 1;
  size_t aggregate = 1;
  size_t cycles = 1;  // 0: for ever
  size_t checks = 1;
  Average average = Average::kMean;
  Blocking blocking = Blocking::kNo;
  std::vector<tuttiDataType_t> types;
  std::vector<tuttiRedOp_t> ops;
  int root = 0;  // -1: every root
  Traffic traffic;
  bool traffic_summary = false;
  int threads = 1;
  int gpus = 1;  // per thread; the crew's threads are threads * gpus
  CrewShape crew;
  HostsOptions hosts;
  CommunicatorOptions communicator;
  bool on_device = false;  // buffers are memory of CUDA devices
  bool registered = false;
  bool stepped = false;
  bool fresh = false;  // the input changes before every iteration; only stepped
  size_t unaligned_elements = 0;
  ReportOptions report;
  VersusOptions versus;
  OpenBaseline open_baseline;  // none: nothing is timed in turns
  std::optional<PlantedFault> fault;
  std::vector<std::string> command_line;
  std::vector<std::string> notes;  // about flags that were given and have no effect

  /// The sizes of the sweep, ascending as given. Never empty.
  std::vector<size_t> byte_sizes() const;
  size_t largest_bytes() const;
};

/// argv[0] is skipped. On --help and on errors prints, and sets *exit_code instead of returning
/// options.
std::optional<PerfOptions> parse_options(const CollectiveTraits& collective, int argc,
                                         const char* const* argv, int* exit_code);

/// The root must be a rank of the group. Called again under a launcher, which decides how many
/// ranks there are.
/// Errors: PerfError.
void check_group(const PerfOptions& options, int ranks);

}  // namespace tutti::perf
