#include "src/operation/completion.h"

#include <chrono>
#include <limits>
#include <utility>

#include "src/base/clock.h"

namespace tutti::operation {

void Completion::add() {
  const MutexLock lock(mutex_);
  ++open_;
}

// A listener may end the handle, and with it this.
void Completion::finish(const Status& status) {
  std::function<void(const Status&)> listener;
  Status outcome;
  {
    const MutexLock lock(mutex_);
    if (first_error_.ok() && !status.ok()) first_error_ = status;
    if (--open_ > 0) return;
    if (times_.began_ns != 0) times_.ended_ns = monotonic_ns();
    listener = std::exchange(listener_, nullptr);
    outcome = first_error_;
    idle_.notify_all();
  }
  if (listener != nullptr) listener(outcome);
}

void Completion::begin(uint64_t now_ns) {
  const MutexLock lock(mutex_);
  times_.began_ns = now_ns;
}

Status Completion::wait() {
  MutexLock lock(mutex_);
  idle_.wait(lock, [this] {
    mutex_.assert_held();
    return open_ == 0;
  });
  return std::exchange(first_error_, Status());
}

Status Completion::outcome() {
  MutexLock lock(mutex_);
  idle_.wait(lock, [this] {
    mutex_.assert_held();
    return open_ == 0;
  });
  return first_error_;
}

bool Completion::is_done(Status& status) {
  const MutexLock lock(mutex_);
  if (open_ > 0) return false;
  status = first_error_;
  return true;
}

bool Completion::is_done_by(uint64_t deadline_ns, Status& status) {
  MutexLock lock(mutex_);
  const auto idle = [this] {
    mutex_.assert_held();
    return open_ == 0;
  };
  constexpr auto kLast = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (deadline_ns > kLast) {
    idle_.wait(lock, idle);
  } else {
    const std::chrono::nanoseconds at(static_cast<int64_t>(deadline_ns));
    if (!idle_.wait_until(lock, std::chrono::steady_clock::time_point(at), idle)) return false;
  }
  status = first_error_;
  return true;
}

bool Completion::call_back(std::function<void(const Status& outcome)> listener) {
  Status outcome;
  {
    const MutexLock lock(mutex_);
    if (listener_ != nullptr) return false;
    if (open_ > 0) {
      listener_ = std::move(listener);
      return true;
    }
    outcome = first_error_;
  }
  listener(outcome);
  return true;
}

Completion::Times Completion::times() {
  const MutexLock lock(mutex_);
  return times_;
}

void Completion::reset() {
  const MutexLock lock(mutex_);
  first_error_ = Status();
  times_ = {};
  listener_ = nullptr;
}

}  // namespace tutti::operation
