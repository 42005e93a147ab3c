// The costs of calls among the ranks of one host, as they were measured when they met.
//
// Threads: values. Units: nanoseconds, and bytes. Errors: none.
#pragma once

#include <vector>

namespace tutti::select {

/// An all_to_all whose buffers have so many bytes on each rank, done in both ways.
struct CopyTimes {
  double bytes = 0;
  double staged_ns = 0;  // through shared memory: the sender copies in, the receiver out
  double single_ns = 0;  // the receiver reads the sender's memory; 0: it may not
  bool operator==(const CopyTimes&) const = default;
};

/// Of so many ranks that share so many cores.
struct CrowdTimes {
  int ranks = 0;
  int cores = 0;
  double step_ns = 0;             // each rank signals and waits for all others
  double one_way_ns = 0;          // of each in a row of short messages from one rank to all others
  std::vector<CopyTimes> copies;  // by rising bytes
  bool operator==(const CrowdTimes&) const = default;
};

/// The cost of one byte to a rank that copies so many: of CopyTimes, less the steps.
struct CopyRate {
  double moved = 0;  // bytes that a rank copies in a call, staged
  double staged_ns_per_byte = 0;
  double single_ns_per_byte = 0;  // of those that it receives; 0: not known
};

/// By rising `moved`.
std::vector<CopyRate> rates_of(const CrowdTimes& crowd);

/// Between two measured ones what lies between them, on a logarithmic scale, beyond them the
/// outermost. `rates` has one at least.
CopyRate rate_at(const std::vector<CopyRate>& rates, double moved);

/// The copies of the ranks of a host in one call, in bytes of one `count`: the part that takes the
/// time, which is the busiest rank's, or an equal part for each core of what all copy.
struct CopyLoad {
  double staged = 0;
  double single = 0;
};
/// Of a rank that publishes and receives so much.
struct CopiedBytes {
  double published = 0;
  double received = 0;
};
CopyLoad load_of(const std::vector<CopiedBytes>& ranks, int cores);

/// Both ways of a call, priced.
struct CopyChoice {
  double staged_ns = 0;
  double single_ns = 0;
  /// One that is hardly faster stays staged: measured on another day it may be slower.
  bool takes_single() const { return single_ns < 0.9 * staged_ns; }
};

}  // namespace tutti::select
