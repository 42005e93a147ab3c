// The one-sided accesses of a communicator, one at a time (window.h).
//
// Threads: one at a time. Lifetime: within the frame. Errors: those of an access are its outcome.
#pragma once

#include <cstdint>

#include "src/comm/call_frame.h"
#include "src/comm/window.h"

namespace tutti::comm {

class Accesses final : private exec::ProgressSource {
 public:
  /// `calls_before`: so many count as made.
  Accesses(CallFrame& frame, uint32_t calls_before) : frame_(frame), calls_(calls_before) {}

  /// Blocks until the access is over. `own_timeout_ns` as CallFrame::timeout_of() takes it, and so
  /// below.
  Status run(const Access& access, uint64_t own_timeout_ns);
  /// `ticket`: of the recorder's queue.
  Status begin(const Access& access, uint64_t own_timeout_ns, uint64_t ticket);
  plan::Progress advance();
  Status outcome() const;

 private:
  void name(const Access& access, uint64_t own_timeout_ns);
  void tell_progress(trace::Recorder& recorder, const diagnosis::Stall& stall) const override;

  CallFrame& frame_;
  Access access_;
  uint32_t calls_;
};

}  // namespace tutti::comm
