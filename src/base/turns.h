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
#include <set>

#include "src/base/mutex.h"
#include "src/base/wait_limit.h"

namespace tutti {

class Turns {
 public:
  class PlaceInLine {
   public:
    PlaceInLine(Turns& line, uint64_t number) : line_(line), number_(number) {}
    ~PlaceInLine() { give_up(); }
    PlaceInLine(const PlaceInLine&) = delete;
    PlaceInLine& operator=(const PlaceInLine&) = delete;

    /// Places are counted from 0.
    uint64_t number() const { return number_; }
    /// Until all earlier places are given up. False: its patience was over before.
    bool await(const WaitLimit& wait_limit) { return line_.await(number_, wait_limit); }
    void give_up() { line_.give_up(number_); }

   private:
    Turns& line_;
    const uint64_t number_;
  };

  std::shared_ptr<PlaceInLine> take() {
    const MutexLock lock(mutex_);
    held_.insert(next_);
    return std::make_shared<PlaceInLine>(*this, next_++);
  }

 private:
  bool await(uint64_t number, const WaitLimit& wait_limit) {
    constexpr std::chrono::milliseconds kLook{20};  // a cancellation wakes nobody here
    MutexLock lock(mutex_);
    const auto first = [&] {
      mutex_.assert_held();
      return held_.empty() || *held_.begin() >= number;
    };
    while (!changed_.wait_for(lock, kLook, first)) {
      wait_limit.tell_if_due();
      if (wait_limit.over()) return false;
    }
    return true;
  }
  void give_up(uint64_t number) {
    const MutexLock lock(mutex_);
    if (held_.erase(number) > 0) changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> held_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
