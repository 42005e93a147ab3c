#include "src/engines/streams/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "src/base/fork.h"
#include "src/base/thread.h"

namespace tutti::engines::streams {

namespace {

/// None is made yet, or not since the process was forked: a child leaves its parent's alone.
std::atomic<Watchdog*>& of_process() {
  // tidy: allow mutable (one for all communicators)
  static std::atomic<Watchdog*> known{nullptr};
  return known;
}

void before_fork() {}
void after_fork_in_parent() {}
void after_fork_in_child() { of_process().store(nullptr, std::memory_order_release); }

/// When the library is loaded: a child may be forked at any time.
[[gnu::constructor]] void watch_forks() {
  at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace

Watchdog& Watchdog::get() {
  Watchdog* known = of_process().load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto* const made = new Watchdog;  // for the process's life
  if (of_process().compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

Status Watchdog::watch(Watched& one) {
  const MutexLock lock(mutex_);
  if (!runs_) {
    Result<std::thread> thread = start_thread("tutti-devices", [this] { loop(); });
    if (!thread.ok()) return thread.status();
    thread.value().detach();
    runs_ = true;
  }
  watched_.push_back(&one);
  return {};
}

void Watchdog::forget(Watched& one) {
  MutexLock lock(mutex_);
  std::erase(watched_, &one);
  if (std::this_thread::get_id() == thread_) return;
  changed_.wait(lock, [&] {
    mutex_.assert_held();
    return looked_at_ != &one;
  });
}

void Watchdog::wake() {
  const MutexLock lock(mutex_);
  if (std::exchange(awake_, true)) return;
  changed_.notify_all();
}

void Watchdog::tell_oldest(const void* whose, const std::string& device, std::string call) {
  const MutexLock lock(mutex_);
  if (call.empty()) {
    oldest_.erase(whose);
  } else {
    oldest_[whose] = {device, std::move(call)};
  }
}

std::string Watchdog::other_oldest(const void* whose, const std::string& device) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(oldest_.begin(), oldest_.end(), [&](const auto& one) {
    return one.first != whose && one.second.device == device;
  });
  return found == oldest_.end() ? "" : found->second.call;
}

// Without the lock: who is told that a call is over may make the next one.
bool Watchdog::look_at_all() {
  bool pending = false;
  for (size_t i = 0; i < watched_.size(); ++i) {
    Watched* const looked_at = watched_[i];
    looked_at_ = looked_at;
    mutex_.unlock();
    const bool has_calls = looked_at->look();
    mutex_.lock();
    looked_at_ = nullptr;
    pending = pending || has_calls;
    changed_.notify_all();
  }
  return pending;
}

bool Watchdog::patrols() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const Watched* one) { return one->patrols(); });
}

// A stream that goes well is past its call long before it is looked at for the second time.
void Watchdog::loop() {
  constexpr auto kNap = std::chrono::milliseconds(1);
  constexpr auto kPatrol = std::chrono::milliseconds(50);
  MutexLock lock(mutex_);
  thread_ = std::this_thread::get_id();
  for (;;) {
    const auto is_awake = [this] {
      mutex_.assert_held();
      return awake_;
    };
    if (patrols()) {
      changed_.wait_for(lock, kPatrol, is_awake);
    } else {
      changed_.wait(lock, is_awake);
    }
    awake_ = false;
    if (!look_at_all()) continue;
    awake_ = true;
    changed_.wait_for(lock, kNap, [] { return false; });
  }
}

}  // namespace tutti::engines::streams
