// Whether the machine ran while a test looked at the clock. A virtual processor that its host gave
// no time, or a machine that swapped, makes everything late, and who is late looks like who is
// stopped: what was seen then says nothing about the library.
//
// Owns: a process for each processor of this one, which sleeps again and again for a moment, and
// one that has the kernel pass through its RCU grace periods, without which no process ends (once
// 59 s, while the processors worked on). Threads: requires that the caller has no other thread,
// because it forks. Units: nanoseconds. Errors: where no process can be made, the machine ran.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tutti::testing_support {

class Metronome {
 public:
  Metronome();
  ~Metronome();
  Metronome(const Metronome&) = delete;
  Metronome& operator=(const Metronome&) = delete;

  /// How long, all in all, the processor that it was worst for, or the kernel, did not run what was
  /// due.
  uint64_t stood_still_ns() const;
  /// One for each processor; the kernel's is the last.
  const std::vector<pid_t>& processes() const { return processes_; }

 private:
  struct Beats;

  /// False: no more processes can be made.
  bool add(uint64_t usual_ns, const std::function<void()>& prepare,
           const std::function<void()>& pause);

  Beats* beats_;
  std::vector<pid_t> processes_;
};

/// For who looks again and again anyway, and waits for tens of seconds: only long standstills.
///
/// Owns: nothing. Threads: one. It needs no process of its own.
class Pulse {
 public:
  static constexpr uint64_t kLongNs = 2'000'000'000;

  Pulse();
  /// At least every few hundred milliseconds. Once a second it waits for the kernel's grace period.
  void beat();
  /// The gaps between beats that no busy machine makes.
  uint64_t stood_still_ns() const { return stood_still_ns_; }

 private:
  uint64_t last_ns_;
  uint64_t last_grace_ns_;
  uint64_t stood_still_ns_ = 0;
};

using Attempt = std::function<bool(const Metronome&)>;

/// Whether `attempt` succeeds. One that fails while the machine stood still is repeated, a few
/// times.
bool succeeds_where_the_machine_runs(const Attempt& attempt);

}  // namespace tutti::testing_support
