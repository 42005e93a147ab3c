// The frame that every call of a communicator has around its work: it checks failures that others
// have found, has a deadline, is written into the flight recorder, and hands on what failed.
//
// Owns: the recorder. Threads: the thread that drives the communicator; those that say so, any.
// Lifetime: within what it is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/clock.h"
#include "src/comm/call_recorder.h"
#include "src/comm/failure.h"
#include "src/comm/memory_table.h"
#include "src/exec/call_state.h"
#include "src/trace/recorder.h"

namespace tutti::comm {

class CallFrame {
 public:
  /// `default_timeout_ns`: of calls for which nobody says anything else; 0 or kNoDeadline: none.
  CallFrame(exec::CallState& state, Failure& failure, MemoryTable& memory, CallRecorder& calls,
            uint64_t default_timeout_ns)
      : state_(state),
        failure_(failure),
        memory_(memory),
        calls_(calls),
        default_timeout_ns_(default_timeout_ns) {}

  exec::CallState& state() { return state_; }
  trace::Recorder& recorder() { return calls_.recorder(); }
  CallRecorder& labels() { return calls_; }
  /// Why the communicator's calls fail; OK if they do not.
  const Status& status() const { return state_.status(); }

  /// Before a call: what a thread that is in no call has found holds for the calls behind it, also
  /// for those that wait for nobody.
  void check_failures() {
    if (failure_.is_known()) [[unlikely]]
      fail_calls();
  }
  [[gnu::noinline, gnu::cold]] void fail_calls();
  /// Behind a call that was begun in the recorder.
  void conclude(const Status& outcome);
  /// The failure of a call is the communicator's, and other threads know it from now on.
  void publish_failure();

  /// How long a call may take whose own limit is `own`. 0: the default; kNoDeadline: for ever.
  uint64_t timeout_of(uint64_t own) const { return own > 0 ? own : default_timeout_ns_; }
  uint64_t deadline_of(uint64_t own) const { return deadline_after(timeout_of(own)); }

 private:
  exec::CallState& state_;
  Failure& failure_;
  MemoryTable& memory_;
  CallRecorder& calls_;
  const uint64_t default_timeout_ns_;
};

}  // namespace tutti::comm
