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
// Threads: one Caller at a time, as tutti.h asks of those who use a communicator; the rest any.
// Errors: none.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace tutti::api {

/// To be called before threads share a Presence. False if this kernel cannot run a barrier on the
/// threads of the process.
bool prepare_process_barrier();

/// Which thread this is.
inline uintptr_t this_thread() {
#if defined(__GNUC__) && !defined(__clang__)
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
#else
  return static_cast<uintptr_t>(pthread_self());
#endif
}

/// While it exists this thread is in a call that may last and has no Caller: of a group, or one
/// that makes communicators. It begins before the call takes a state that others wait for: a signal
/// handler may interrupt the thread at any instruction behind that.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
/// Whether it is, or is a Visitor of any communicator.
bool is_inside();

class Presence {
 public:
  /// Before anybody is inside.
  void use_process_barrier(bool available) { callers_fence_ = !available; }

  /// After a change of state: a caller who has not seen it is seen by has_caller() from now on.
  void announce_change() const;
  bool has_caller() const { return caller_.load(std::memory_order_seq_cst) != 0; }
  bool is_callers_thread() const {
    return caller_.load(std::memory_order_relaxed) == this_thread();
  }
  bool is_empty() const { return !has_caller() && visitors_.load(std::memory_order_seq_cst) == 0; }
  /// After a change of state, until all others have left. The calling thread is a Visitor.
  void wait_for_others() const;

 private:
  friend class Caller;
  friend class Visitor;

  std::atomic<uintptr_t> caller_{0};  // its thread; 0: none
  std::atomic<uint32_t> visitors_{0};
  bool callers_fence_ = true;
};

/// The thread that uses the communicator is in a call: the way of every small one.
class Caller {
 public:
  explicit Caller(Presence& presence) : presence_(presence) {
    if (presence.callers_fence_) [[unlikely]] {
      presence.caller_.exchange(this_thread(), std::memory_order_seq_cst);
    } else {
      presence.caller_.store(this_thread(), std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the rest is announce_change()'s
    }
  }
  ~Caller() { presence_.caller_.store(0, std::memory_order_release); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  Presence& presence_;
};

/// Any thread that looks at the communicator for a moment or uses it seldom. May hold a Caller.
class Visitor {
 public:
  explicit Visitor(Presence* presence);  // null: of nothing
  ~Visitor();
  Visitor(Visitor&& other) noexcept : presence_(std::exchange(other.presence_, nullptr)) {}
  Visitor& operator=(Visitor&& other) noexcept {
    std::swap(presence_, other.presence_);
    return *this;
  }

 private:
  Presence* presence_;
};

}  // namespace tutti::api
