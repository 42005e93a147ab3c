// Ranks that are slower than their peers for long: the online half of NodeSweep (Guard, arXiv
// 2605.17879).
//
// In every window each rank brings one sample of each signal: the time of a step, a clock, a count
// of errors, so that larger is worse. A rank stands out in a signal when it lies `score` deviations
// above the median of all ranks, and is suspected when it does so in two signals (in one where
// there is only one) for `windows` windows in a row. A cause that slows all is nobody's fault.
// Ranks that do different work, such as stages of a pipeline, belong into monitors of their own.
//
// Threads: one at a time. Units: those of the signals. Errors: kInvalidArgument for fewer than four
// ranks or no signal; kInvalidUsage for windows that do not rise or samples that are too old.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace tutti::health {

struct MonitorRules {
  double score = 3.5;     // robust z: 1.4826 times the median deviation is one
  double floor = 0.005;   // of the median: less deviation is taken for as much
  uint32_t windows = 10;  // in a row
  uint32_t stale = 2;     // windows after which a sample is too old
};

struct SignalSample {
  double value = 0;
  uint64_t window = 0;  // in which it was taken
};

class PeerMonitor {
 public:
  static Result<PeerMonitor> make(uint32_t ranks, uint32_t signals, const MonitorRules& rules = {});

  /// samples[rank * signals + signal]. Returns the ranks that are suspected now, ascending.
  Result<std::vector<uint32_t>> add(uint64_t window, const std::vector<SignalSample>& samples);

 private:
  PeerMonitor(uint32_t ranks, uint32_t signals, const MonitorRules& rules)
      : ranks_(ranks), signals_(signals), rules_(rules), in_a_row_(ranks, 0) {}

  uint32_t ranks_;
  uint32_t signals_;
  MonitorRules rules_;
  std::vector<uint32_t> in_a_row_;  // by rank: windows
  bool has_begun_ = false;
  uint64_t window_ = 0;
};

}  // namespace tutti::health
