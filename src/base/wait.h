// How a thread waits: spin, yield early, sleep.
//
// With a core for every rank a message is a cache line away, so polling is best. With more ranks
// than cores the peer cannot run until this thread yields, so it does so after a few polls. Long
// waits sleep, so that a rank whose peers are late costs no core.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "src/base/clock.h"

namespace tutti {

/// How long who gives up waits for peers of other processes that are in the middle of a piece of
/// work in its memory, which takes them a moment if they run.
inline constexpr uint64_t kStretchPatienceNs = 300'000'000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How a rank waits: `sharing` ranks of its machine share memory, `cores` may run them.
struct SpinInputs {
  int sharing = 1;
  int cores = 1;
  bool has_streams = false;  // some peers are reached by the operating system only
};

/// Polls before the processor is offered to others. A poll of streams is a system call, beside
/// which a yield costs little; and ranks of one machine that share no memory do not know of each
/// other.
constexpr uint32_t spins_for(const SpinInputs& inputs) {
  const bool has_core = inputs.sharing <= inputs.cores && !inputs.has_streams;
  return has_core ? 20'000 : 5;
}

/// Says in `word` that this rank is in the middle of a piece of work, whatever ends that.
template <class Word>
class ScopedFlag {
 public:
  explicit ScopedFlag(Word& word) : word_(word) { word_.store(1, std::memory_order_seq_cst); }
  ScopedFlag(const ScopedFlag&) = delete;
  ScopedFlag& operator=(const ScopedFlag&) = delete;
  ~ScopedFlag() { word_.store(0, std::memory_order_release); }

 private:
  Word& word_;
};

/// Naps that this thread takes before it yields again: others need the processor for longer than a
/// peer's poll. A thread that only yields to them is the last that the scheduler comes back to, one
/// that slept among the first.
// tidy: allow mutable (what a thread knows of its processor outlasts its waits)
inline constinit thread_local uint32_t naps_left = 0;

/// How many naps the next yield that lasts for long is followed by, and how many yields in a row
/// have been short. One that was long by chance, as where a peer came late, costs few naps; where
/// others compute, each is, and the naps become many.
struct NapHabit {
  static constexpr uint32_t kFewest = 4, kMost = 128;  // 128 take some ten milliseconds
  static constexpr uint32_t kForgets = 64;             // short yields in a row
  uint32_t naps = kFewest;
  uint32_t short_yields = 0;

  void yielded_shortly() {
    if (++short_yields >= kForgets) naps = kFewest;
  }
  uint32_t yielded_for_long() {
    const uint32_t now = naps;
    naps = naps * 4 < kMost ? naps * 4 : kMost;
    short_yields = 0;
    return now;
  }
};
// tidy: allow mutable (as naps_left)
inline constinit thread_local NapHabit nap_habit;

class Backoff {
 public:
  explicit Backoff(uint32_t spins) : spins_(spins) {}

  /// One unsuccessful poll. True if the caller should look at what is rare: failures, deadlines.
  bool pause() {
    if (++polls_ <= spins_) {
      relax();
      return polls_ % kLongSpin == 0;
    }
    const uint64_t late = polls_ - spins_;
    if (naps_left > 0) {
      --naps_left;
    } else if (late < kYields) {
      yield();
      return late % 16 == 0;
    }
    const long nanoseconds = late < 2 * kYields ? 50'000 : 500'000;
    const timespec nap{0, nanoseconds};
    nanosleep(&nap, nullptr);
    return true;
  }

  /// Something moved: polling is worth it again.
  void reset() { polls_ = 0; }

 private:
  static void yield() {
    const uint64_t before_ns = monotonic_ns();
    sched_yield();
    if (monotonic_ns() - before_ns <= kLongYieldNs) return nap_habit.yielded_shortly();
    naps_left = nap_habit.yielded_for_long();
  }

  // Longer than peers take to copy what they have in hand, shorter than the scheduler's turns.
  static constexpr uint64_t kLongYieldNs = 500'000;
  static constexpr uint64_t kLongSpin = 1 << 16;  // polls between two looks at what is rare
  static constexpr uint64_t kYields = 4000;

  uint64_t spins_;
  uint64_t polls_ = 0;
};

}  // namespace tutti
