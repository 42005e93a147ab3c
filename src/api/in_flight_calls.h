// Tells which threads are in a call on a communicator, which is freed when none is inside any more.
//
// A call says that it is inside and then reads the communicator's state; what ends a communicator
// changes the state and then looks who is inside. One of the two must see the other, which takes a
// memory barrier between the two accesses on both sides. The side that ends, which is rare, makes
// the kernel run one on every thread of the process (membarrier), so the blocking call, which is
// not, does with two plain stores. Where the kernel has no such call each call pays for its own.
//
// A thread that a signal handler has interrupted in a call may come back: exit() runs what the
// program has registered, in this very thread. A call that ends a communicator there must not wait
// for it.
//
// Threads: one CallGuard at a time, as tutti.h asks of those who use a communicator; the rest any.
// Errors: none.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace tutti::api {

/// To be called before threads share an InFlightCalls. False if this kernel cannot run a barrier on
/// the threads of the process.
bool prepare_process_barrier();

/// Which thread this is.
inline uintptr_t this_thread() {
#if defined(__GNUC__) && !defined(__clang__)
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
#else
  return static_cast<uintptr_t>(pthread_self());
#endif
}

/// While it exists this thread is in a call that may last and has no CallGuard: of a group, or one
/// that makes communicators. It begins before the call takes a state that others wait for: a signal
/// handler may interrupt the thread at any instruction behind that.
class ThreadInCall {
 public:
  ThreadInCall();
  ~ThreadInCall();
  ThreadInCall(const ThreadInCall&) = delete;
  ThreadInCall& operator=(const ThreadInCall&) = delete;
};
/// Whether it is, or holds a UseGuard of any communicator.
bool is_in_call();

class InFlightCalls {
 public:
  /// Before anybody is inside.
  void use_process_barrier(bool available) { callers_fence_ = !available; }

  /// After a change of state: a caller who has not seen it is seen by has_caller() from now on.
  void announce_change() const;
  bool has_caller() const { return caller_.load(std::memory_order_seq_cst) != 0; }
  bool is_callers_thread() const {
    return caller_.load(std::memory_order_relaxed) == this_thread();
  }
  bool is_empty() const { return !has_caller() && uses_.load(std::memory_order_seq_cst) == 0; }
  /// After a change of state, until all others have left. The calling thread holds a UseGuard.
  void wait_for_others() const;

 private:
  friend class CallGuard;
  friend class UseGuard;

  std::atomic<uintptr_t> caller_{0};  // its thread; 0: none
  std::atomic<uint32_t> uses_{0};
  bool callers_fence_ = true;
};

/// The thread that uses the communicator is in a call: the way of every small one.
class CallGuard {
 public:
  explicit CallGuard(InFlightCalls& in_flight) : in_flight_(in_flight) {
    if (in_flight.callers_fence_) [[unlikely]] {
      in_flight.caller_.exchange(this_thread(), std::memory_order_seq_cst);
    } else {
      in_flight.caller_.store(this_thread(), std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the rest is announce_change()'s
    }
  }
  ~CallGuard() { in_flight_.caller_.store(0, std::memory_order_release); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  InFlightCalls& in_flight_;
};

/// Any thread that looks at the communicator for a moment or uses it seldom. May hold a CallGuard.
class UseGuard {
 public:
  explicit UseGuard(InFlightCalls* in_flight);  // null: of nothing
  ~UseGuard();
  UseGuard(UseGuard&& other) noexcept : in_flight_(std::exchange(other.in_flight_, nullptr)) {}
  UseGuard& operator=(UseGuard&& other) noexcept {
    std::swap(in_flight_, other.in_flight_);
    return *this;
  }

 private:
  InFlightCalls* in_flight_;
};

}  // namespace tutti::api
