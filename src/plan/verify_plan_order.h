// Happens-before in a symbolic run: vector clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::plan::verifier {

/// A point of one thread's own time. Time 0 is before everything.
struct Timestamp {
  uint32_t thread = 0;
  uint32_t time = 0;
};

/// One thread's knowledge of the time of all threads: a vector clock.
class Clock {
 public:
  Clock() = default;
  explicit Clock(size_t threads) : times_(threads, 0) {}

  bool knows(Timestamp timestamp) const { return times_[timestamp.thread] >= timestamp.time; }
  Timestamp tick(uint32_t thread) { return {thread, ++times_[thread]}; }
  void join(const Clock& other) {
    for (size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

 private:
  std::vector<uint32_t> times_;
};

}  // namespace tutti::plan::verifier
