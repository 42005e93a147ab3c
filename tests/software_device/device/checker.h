// The happens-before checker: finds accesses to the same bytes that nothing orders, whatever the
// timing of the run was.
//
// Each stream is an agent with a vector clock. Words that streams write for others to wait for hand
// the clock on (so do copies of one aligned word of 4 or 8 bytes), and so do events, the submission
// of work, waits of the host, and what a test says about its own exchanges (hooks.h). Two accesses
// to overlapping bytes, one of them a write, by agents of which neither knows the other's access,
// are a race.
//
// All ranks share one file of fixed tables. It knows what the device does and nothing of the host's
// own loads and stores. The host of a process is one agent's worth of knowledge, whichever of its
// threads acts, unless SOFTDEV_THREAD_CLOCKS says that each thread knows what itself waited for and
// was told (hooks.h); branches of a graph count as ordered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/software_device/device/memory.h"

namespace softdev {

inline constexpr int kMaxAgents = 64;

struct Clock {
  uint32_t of[kMaxAgents] = {};
  void join(const Clock& other);
};

/// A stream, as long as one of its operations runs on this thread.
class Agent {
 public:
  /// Begins an operation that may know what `seen` does.
  void begin(const Clock& seen);
  /// All that is known so far, this operation included.
  const Clock& clock() const { return clock_; }
  /// All that was known before the operation, of this agent's own doing: a word inside a batch says
  /// nothing about the batch.
  Clock clock_before() const;
  void learn(const Clock& other) { clock_.join(other); }
  int id() const { return id_; }

 private:
  int id_ = -1;
  Clock clock_;
};

bool checking();

Clock host_clock();
void host_learns(const Clock& clock);

/// A word or event that others wait for.
void publish(Place place, const Clock& clock);
Clock published(Place place);

void check_access(const Agent& agent, Place place, size_t bytes, bool writes);

unsigned races_found();
unsigned checker_overflows();

}  // namespace softdev
