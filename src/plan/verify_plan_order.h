// Happens-before in a symbolic run: vector clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::plan::verifier {

/// A point of one thread's own time. Time 0 is before everything.
struct Moment {
  uint32_t thread = 0;
  uint32_t time = 0;
};

/// What one thread knows of the time of all threads.
class Clock {
 public:
  Clock() = default;
  explicit Clock(size_t threads) : times_(threads, 0) {}

  bool knows(Moment moment) const { return times_[moment.thread] >= moment.time; }
  Moment tick(uint32_t thread) { return {thread, ++times_[thread]}; }
  void join(const Clock& other) {
    for (size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

 private:
  std::vector<uint32_t> times_;
};

/// A position in a ring of regions, taken frame by frame: what exec::RingCursor does, for any
/// number of regions.
class Ring {
 public:
  Ring() = default;
  Ring(uint32_t regions, uint64_t region_size, bool early_release)
      : region_size_(region_size), early_release_(early_release), release_(regions, 0) {}

  uint64_t size() const { return region_size_ * release_.size(); }

  uint64_t take(uint64_t size, uint64_t progress, uint64_t most = ~uint64_t{0}) {
    if (used_ + size > std::min(region_size_, most)) {
      release_[region_] = early_release_ ? last_taken_ : progress;
      region_ = (region_ + 1) % release_.size();
      used_ = 0;
      credited_ = false;
    }
    const uint64_t position = region_ * region_size_ + used_;
    used_ += size;
    last_taken_ = progress;
    return position;
  }

  bool credited() const { return credited_; }
  uint64_t required() const { return release_[region_]; }
  void set_credited() { credited_ = true; }

 private:
  uint64_t region_size_ = 0;
  bool early_release_ = false;
  std::vector<uint64_t> release_;
  uint64_t used_ = 0;
  uint64_t last_taken_ = 0;
  size_t region_ = 0;
  bool credited_ = true;
};

}  // namespace tutti::plan::verifier
