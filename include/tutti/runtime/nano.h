// Nano-batches: an operation is cut into ranges of its batch, so that the network works for one
// range while another is computed (NanoFlow, arXiv:2408.12757).
//
// Exact: the dependency rule (two nano-operations depend if their operations do and their ranges
// intersect) and the choice of shares from a table. Ours: the search for number and size of ranges,
// by simulated times instead of the authors' mixed integer program; the order of operations is
// given.
//
// Units:   tokens, nanoseconds of a whole operation; shares of a device from 0 to 1.
// Errors:  throws Error and says which number to change.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct NanoOperation {
  std::string name;
  bool communicates = false;  // an all_reduce of all ranks, else computing
  Nanoseconds duration{0};    // of the whole batch
  std::vector<int64_t> cuts;  // where ranges end, ascending, without the end of the batch
  std::vector<int> after;     // earlier operations
};

struct NanoSpec {
  int ranks = 2;
  int64_t tokens = 1024;
  int64_t grain = 128;      // cuts are multiples of it
  Bytes token_bytes{1024};  // of communication
  std::vector<NanoOperation> operations;
  Nanoseconds overhead{0};  // of each range, whatever its length: a launch, a lower rate
};
/// Ranges run in the order of their operations, then of the batch.
TUTTI_RUNTIME_API Timeline nano_batches(const NanoSpec& spec);

struct NanoSearch {
  int most_parts = 4;      // of an operation
  int64_t step = 0;        // by which cuts are moved, a multiple of the grain; 0: the grain
  int64_t trials = 20000;  // simulations at most
};
struct FoundCuts {
  NanoSpec spec;  // with the cuts that were found
  Nanoseconds makespan{0};
  int64_t trials = 0;
  bool exhaustive = false;  // every way to cut into equal parts was tried
};
/// Cuts operations so that the whole takes least, whatever cuts they have. Where there are few
/// operations every number of equal parts is tried, else one operation after the other is improved
/// until none can be; then cuts are moved while that helps. Deterministic.
TUTTI_RUNTIME_API FoundCuts search_cuts(const NanoSpec& spec, const NanoSearch& search = {});

/// `layers` pairs of computing and communication, each after the one before, in equal parts.
TUTTI_RUNTIME_API NanoSpec layered(int layers, Nanoseconds computing, Nanoseconds communication,
                                   int parts);

/// How fast communication is, of its best, with a share of the device. Points of a table rise in
/// both.
struct SharePoint {
  double share = 0;
  double performance = 0;
};
struct Admission {
  double share = 0;     // of the device, for communication; computing has the rest
  Nanoseconds time{0};  // of both together: the longer one
};
/// The point of the table, within the budget, that makes the longer of both shortest.
TUTTI_RUNTIME_API Admission admit(std::span<const SharePoint> table, Nanoseconds computing,
                                  Nanoseconds communication, double budget = 1.0);
/// The thread blocks that a share of a device is, of one block a multiprocessor: at least 1,
/// rounded down. RunOptions::most_ctas takes them, so that a run keeps to what was simulated.
TUTTI_RUNTIME_API int blocks_of(double share, int multiprocessors);
/// Throws where shares that work at the same time exceed the budget.
TUTTI_RUNTIME_API void expect_within(std::span<const double> shares, double budget);

}  // namespace tutti::runtime
