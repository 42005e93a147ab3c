// Runs the host's part of calls on devices of several hosts (network_machine.h), in the place of
// HostExecutor: such a call has a number among the host's, and their deadlines, comparison of calls
// and failures.
//
// Owns: nothing of a call but its plan and where it stands. Threads: one at a time. Errors: those
// of CallState, which it shares with HostExecutor.
#pragma once

#include <memory>

#include "src/exec/call_state.h"
#include "src/exec/network_machine.h"
#include "src/plan/walk.h"

namespace tutti::exec {

class NetworkExecutor final : private ProgressSource {
 public:
  /// It outlives this.
  explicit NetworkExecutor(CallState& state)
      : state_(state), machine_(state), walk_(plan::Engine::kDevice) {}

  void start(const NetworkCall& network, const Call& call);
  /// kDone also after a failure.
  Progress advance();
  bool is_running() const { return plan_ != nullptr; }

 private:
  StepPlace step() const override;
  // The host does not know how much the streams have moved.
  void tell_progress(trace::Recorder& /*recorder*/, const Stall& /*stall*/) const override {}

  CallState& state_;
  NetworkMachine machine_;
  plan::Walk<NetworkMachine> walk_;
  plan::Cursors cursors_;                    // of no ring: the streams' machine has those
  std::shared_ptr<const NetworkPlan> plan_;  // null between calls
  std::shared_ptr<NetworkCrossing> crossing_;
};

}  // namespace tutti::exec
