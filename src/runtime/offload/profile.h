// How long the work of a step takes between its storages, and how fast the disk was: what the next
// step's amount is planned from.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "tutti/runtime/offload.h"

namespace tutti::runtime::offload {

class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StepProfile(double slack) : slack_(slack) {}

  /// A new storage, for whose room the step waited so long. True: it goes to the disk.
  bool packed(Bytes bytes, Clock::duration waited);
  void unpacked(int64_t number);
  /// unpack() has what it waited for.
  void resumed() { last_ = Clock::now(); }
  void moved(bool is_write, Bytes bytes, Clock::time_point begun, Clock::time_point ended);
  /// Plans the next step.
  void end_step(Bytes budget);
  /// Storages that go to the disk; -1: all.
  int planned() const { return planned_; }

 private:
  struct DiskTraffic {
    double bytes = 0;
    double seconds = 0;  // while something was under way
    Clock::time_point busy_until;
  };

  double slack_;
  int planned_ = -1;
  std::vector<OffloadItem> items_;
  Clock::time_point last_ = Clock::now();
  int64_t last_used_ = -1;
  DiskTraffic writes_, reads_;
};

}  // namespace tutti::runtime::offload
