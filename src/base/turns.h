// A line that threads stand in: who took a place first goes first, and the next one when that place
// is given up, used or not.
//
// Owns: nothing; the line outlives its places. Threads: any. Errors: await() says whether it was
// in time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "src/base/clock.h"

namespace tutti {

class Turns {
 public:
  class Place {
   public:
    Place(Turns& line, uint64_t number) : line_(line), number_(number) {}
    ~Place() { give_up(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    /// Places are counted from 0.
    uint64_t number() const { return number_; }
    /// Until all earlier places are given up. False: not before the deadline.
    bool await(uint64_t deadline_ns) { return line_.await(number_, deadline_ns); }
    void give_up() { line_.give_up(number_); }

   private:
    Turns& line_;
    const uint64_t number_;
  };

  std::shared_ptr<Place> take() {
    const std::lock_guard lock(mutex_);
    held_.insert(next_);
    return std::make_shared<Place>(*this, next_++);
  }

 private:
  bool await(uint64_t number, uint64_t deadline_ns) {
    std::unique_lock lock(mutex_);
    const auto first = [&] { return held_.empty() || *held_.begin() >= number; };
    if (deadline_ns == kNoDeadline) {
      changed_.wait(lock, first);
      return true;
    }
    const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
    return changed_.wait_until(lock, deadline, first);
  }
  void give_up(uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (held_.erase(number) > 0) changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;        // under mutex_
  std::set<uint64_t> held_;  // under mutex_
};

}  // namespace tutti
