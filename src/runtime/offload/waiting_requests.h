// Requests that have not begun, for the threads of a disk; and the pace at which they may run.
//
// Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "src/runtime/offload/disk.h"

namespace tutti::runtime::offload {

class WaitingRequests {
 public:
  int64_t add(DiskRequest request) {
    const std::lock_guard lock(mutex_);
    auto& queue = request.is_write ? writes_ : reads_;
    queue.emplace_back(++last_, std::move(request));
    changed_.notify_all();  // some of the threads may wait for a time only
    return last_;
  }

  bool cancel(int64_t number) {
    const std::lock_guard lock(mutex_);
    for (auto* queue : {&writes_, &reads_}) {
      for (auto it = queue->begin(); it != queue->end(); ++it) {
        if (it->first != number) continue;
        queue->erase(it);
        return true;
      }
    }
    return false;
  }

  /// The next one; nothing when the disk ends, or at once where `may_wait` is false.
  std::optional<DiskRequest> take(bool may_wait) {
    std::unique_lock lock(mutex_);
    const auto is_ready = [this] { return is_ending_ || !reads_.empty() || !writes_.empty(); };
    if (may_wait) changed_.wait(lock, is_ready);
    auto& queue = reads_.empty() ? writes_ : reads_;
    if (queue.empty() || is_ending_) return std::nullopt;
    DiskRequest request = std::move(queue.front().second);
    queue.pop_front();
    return request;
  }

  void hurry() {
    const std::lock_guard lock(mutex_);
    hurries_ = true;
    changed_.notify_all();
  }
  /// Returns at this time, or when there is hurry.
  void pass(std::chrono::steady_clock::time_point time) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, time, [this] { return hurries_ || is_ending_; });
  }

  void end() {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int64_t, DiskRequest>> reads_, writes_;
  int64_t last_ = 0;
  bool is_ending_ = false, hurries_ = false;
};

/// Says when the next bytes may begin so that a rate is kept; a rate of 0 is none.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Pace(double rate) : rate_(rate) {}

  Clock::time_point book(int64_t bytes) {
    if (rate_ <= 0) return Clock::time_point::min();
    const std::lock_guard lock(mutex_);
    const Clock::time_point begin = std::max(next_, Clock::now());
    next_ = begin + std::chrono::nanoseconds(int64_t(double(bytes) / rate_ * 1e9));
    return next_;  // the bytes count as moved then
  }

 private:
  double rate_;
  std::mutex mutex_;
  Clock::time_point next_;
};

}  // namespace tutti::runtime::offload
