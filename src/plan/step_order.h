// Which steps of one rank come before which, however its lanes progress: those of a lane in their
// order, and those that a step comes `after`.
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::plan {

class StepOrder {
 public:
  explicit StepOrder(const schedule::Schedule& schedule);

  /// Of any two steps one comes before the other.
  bool total() const { return lanes_ == 1; }
  /// Step `a` is done whenever step `b` begins.
  bool before(uint32_t a, uint32_t b) const {
    if (total()) return a < b;
    return a != b && clocks_[size_t{b} * lanes_ + lane_[a]] > a;
  }

 private:
  uint16_t lanes_;
  std::vector<uint16_t> lane_;    // of each step, where there are several
  std::vector<uint32_t> clocks_;  // [step][lane]: behind the last step there that is done, or is it
};

}  // namespace tutti::plan
