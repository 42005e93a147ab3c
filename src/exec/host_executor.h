// Runs plans in host memory: the caller's thread walks the lanes of one rank.
//
// A run is resumable: start() begins a call, advance() does what can be done without waiting, so a
// thread can drive many communicators; run() is both with waiting between. Micro-operations are
// interpreted; plans of one lane and one slice may have a shorter form (fast_path.h).
//
// Owns:    what a rank counts on from call to call.
// Threads: one at a time.
// Errors:  CallState's.
#pragma once

#include <cstdint>
#include <vector>

#include "src/exec/call_state.h"
#include "src/exec/host_machine.h"
#include "src/exec/host_program.h"
#include "src/exec/plan_progress.h"
#include "src/exec/prefetch.h"
#include "src/exec/registrations.h"
#include "src/plan/walk.h"

namespace tutti::exec {

class HostExecutor final : private ProgressSource {
 public:
  HostExecutor(const ExecutorOptions& options, std::vector<Peer> peers, Health& health);

  Status run(const HostProgram& program, const Call& call);

  /// The program and its plan stay until advance() says kDone.
  void start(const HostProgram& program, const Call& call);
  /// kDone also after a failure.
  Progress advance();

  CallState& state() { return state_; }
  const CallState& state() const { return state_; }
  HostMachine& machine() { return machine_; }
  plan::Cursors& cursors() { return cursors_; }
  PlanProgress& progress() { return progress_; }
  Registrations& registrations() { return registrations_; }
  const Registrations& registrations() const { return registrations_; }

  /// Before a call is looked up: the lines it will probably store to are in the caches of those who
  /// read them last, and come back meanwhile.
  void claim_cells() const {
    prefetch_to_write(next_stored_);
    for (uint32_t line = 1; line < next_lines_; ++line) {
      prefetch_to_write(static_cast<const std::byte*>(next_stored_) + line * kPrefetchedBytes);
    }
  }
  /// Sets the cache lines that the next call will store first, which begin() then prefetches.
  /// `lines` 0: none.
  void claim_next(const void* stored, uint32_t lines) {
    next_stored_ = lines > 0 ? stored : this;
    next_lines_ = lines;
  }

 private:
  Progress advance_walk();
  Progress advance_among_buffers();
  PlanStanding standing() const { return {plan_, walk_.positions()}; }
  StepPlace step() const override { return standing().step(); }
  void tell_progress(trace::Recorder& recorder, const Stall& stall) const override;

  CallState state_;
  Registrations registrations_;
  plan::Cursors cursors_;
  HostMachine machine_;
  mutable PlanProgress progress_;
  plan::Walk<HostMachine> walk_;
  const plan::Plan* plan_ = nullptr;  // null between calls
  // At least one line, which may be one that no other rank has. To look first whether there is any
  // costs what claiming gains.
  const void* next_stored_ = this;
  uint32_t next_lines_ = 1;
};

}  // namespace tutti::exec
