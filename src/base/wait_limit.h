// How long one waits for others: until a deadline, until somebody takes the wish back, as long as
// it makes sense, and not in silence. It is what the waits of a communicator that is being made
// have in common.
//
// Owns:    copies share the cancellation, and for whom they wait.
// Units:   nanoseconds of CLOCK_MONOTONIC.
// Errors:  reason() says which end it was.
// Threads: one waits; cancel() and cancelled() from any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti {

/// Given once and for all, from any thread.
class Cancellation {
 public:
  static Result<std::shared_ptr<Cancellation>> create();

  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  /// Readable once it is cancelled.
  int fd() const { return bell_.get(); }

 private:
  explicit Cancellation(Fd bell) : bell_(std::move(bell)) {}

  const Fd bell_;
  std::atomic<bool> cancelled_{false};
};

class WaitLimit {
 public:
  /// Says what is waited for, and since when.
  using Tell = std::function<void(const std::string& what, uint64_t waited_ns)>;
  /// Says whether what is waited for still makes sense.
  using Sense = std::function<Status()>;

  /// A deadline and nothing else: whatever waits may be given one.
  WaitLimit(uint64_t deadline_ns)
      : deadline_ns_(deadline_ns) {}  // NOLINT(google-explicit-constructor)
  /// `tell` is called after `slow_ns` and then at doubling intervals, by the thread that waits.
  WaitLimit(uint64_t deadline_ns, std::shared_ptr<Cancellation> cancellation, uint64_t slow_ns,
            Tell tell);

  uint64_t deadline_ns() const { return deadline_ns_; }
  /// The same, with a deadline that is no later than this.
  WaitLimit until(uint64_t deadline_ns) const {
    WaitLimit shorter = *this;
    shorter.deadline_ns_ = std::min(deadline_ns_, deadline_ns);
    return shorter;
  }
  WaitLimit at_most(uint64_t timeout_ns) const { return until(deadline_after(timeout_ns)); }

  /// The same, and it is over once `sense` has told an error. It is asked by the thread that waits,
  /// every 100 ms; copies of what this returns share what it said.
  WaitLimit as_long_as(Sense sense) const;
  /// The same, for what is on its way already.
  WaitLimit without_purpose() const {
    WaitLimit stubborn = *this;
    stubborn.purpose_ = nullptr;
    return stubborn;
  }

  bool cancelled() const { return cancellation_ != nullptr && cancellation_->cancelled(); }
  /// Waiting makes no sense any more.
  bool has_lost_purpose() const { return purpose_ != nullptr && !purpose_->status.ok(); }
  bool over() const { return cancelled() || has_lost_purpose() || monotonic_ns() >= deadline_ns_; }
  /// Why it is over: that it was cancelled, why it makes no sense, or kTimeout with these words.
  Status reason(std::string late) const;
  /// -1: it cannot be cancelled.
  int cancellation_fd() const { return cancellation_ == nullptr ? -1 : cancellation_->fd(); }

  /// Sets the text that is logged from now on if the wait takes long: "rank 1 waits for ...".
  void waits_for(std::string what) const;
  /// When it is said next.
  uint64_t tells_at_ns() const { return slowness_ == nullptr ? kNoDeadline : slowness_->next_ns; }
  /// After how long it is said first.
  uint64_t slow_ns() const { return slowness_ == nullptr ? kNoDeadline : slowness_->slow_ns; }
  void tell_if_due() const;
  /// When `sense` is asked next; 0: it has told an error, and nothing waits any more.
  uint64_t asks_at_ns() const { return purpose_ == nullptr ? kNoDeadline : purpose_->next_ns; }
  void ask_if_due() const;

  /// Sleeps for so long; ends early when it is over. For what cannot be polled.
  void pause(uint64_t duration_ns) const;

 private:
  struct Slowness {
    uint64_t begun_ns = 0;
    uint64_t next_ns = kNoDeadline;
    uint64_t slow_ns = kNoDeadline;
    Tell tell;
    std::string what;
  };

  struct WaitPurpose {
    Sense sense;
    uint64_t next_ns = 0;
    Status status;
  };

  uint64_t deadline_ns_;
  std::shared_ptr<Cancellation> cancellation_;
  std::shared_ptr<WaitPurpose> purpose_;
  std::shared_ptr<Slowness> slowness_;
};

/// As those of io.h, which have a deadline only.
bool wait_ready(int fd, short events, const WaitLimit& wait_limit);
Status receive_exactly(int fd, void* buffer, size_t bytes, const WaitLimit& wait_limit);
Status send_all(int fd, const void* buffer, size_t bytes, const WaitLimit& wait_limit);

}  // namespace tutti
