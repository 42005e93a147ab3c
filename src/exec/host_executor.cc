#include "src/exec/host_executor.h"

#include <utility>

namespace tutti::exec {

HostExecutor::HostExecutor(const ExecutorOptions& options, std::vector<Peer> peers, Health& health)
    : state_(options, std::move(peers), health),
      registrations_(options.calls_before),
      machine_(state_, registrations_),
      progress_(state_, machine_) {
  cursors_.cells = plan::CellCursor(kCellsPerRegion, kCellRegions);
  for (uint32_t i = 0; i < kLanes; ++i) {
    const plan::RingCursor ring(options.layout.region_bytes(), kRingRegions);
    cursors_.lanes[i] = {options.first_progress, ring};
    state_.mine().counter(i).progress.store(options.first_progress, std::memory_order_release);
  }
}

void HostExecutor::start(const HostProgram& program, const Call& call) {
  plan_ = program.plan;
  claim_next(nullptr, 0);
  walk_.start(*plan_, cursors_);
  if (!plan_->prologue.empty()) state_.begin_exposure();
  state_.begin(call, this);
  machine_.set_buffers(call);
  machine_.start(program);
  machine_.reserve(*plan_);  // last: if it throws, the recorder looks at the lanes
}

Status HostExecutor::run(const HostProgram& program, const Call& call) {
  if (!state_.ok()) return state_.status();
  start(program, call);
  return state_.wait([this] { return advance(); });
}

Progress HostExecutor::advance() {
  if (!state_.ok()) return Progress::kDone;
  machine_.begin_turn();
  const Progress progress = state_.is_exposed() ? advance_among_buffers() : advance_walk();
  if (progress == Progress::kDone) {  // the plan's owner may drop it now
    plan_ = nullptr;
    state_.show(nullptr);
  }
  return progress;
}

Progress HostExecutor::advance_walk() {
  const Progress progress = walk_.advance(machine_);
  return progress == Progress::kFailed || !state_.ok() ? Progress::kDone : progress;
}

// Between the two stores a peer that leaves the call with an error waits for this rank; before the
// first one it has told this rank not to begin.
Progress HostExecutor::advance_among_buffers() {
  const auto in_plan = [this] {
    const ScopedFlag flag(state_.mine().guard().inside);
    return state_.is_shut_out() ? Progress::kBlocked : advance_walk();
  };
  const Progress progress = in_plan();
  if (!state_.ok()) state_.close_buffers();
  if (progress == Progress::kDone) state_.end_exposure();
  return progress;
}

void HostExecutor::tell_progress(trace::Recorder& recorder, const Stall& stall) const {
  progress_.tell(standing(), recorder, stall);
}

}  // namespace tutti::exec
