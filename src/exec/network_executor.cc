#include "src/exec/network_executor.h"

#include "src/exec/plan_progress.h"

namespace tutti::exec {

void NetworkExecutor::start(const NetworkCall& network, const Call& call) {
  constexpr uint64_t kRoomForAll = uint64_t{1} << 40;  // in rings that are nobody's
  state_.begin(call, this);
  plan_ = network.plan;
  crossing_ = network.crossing.lock();
  if (crossing_ == nullptr) {
    plan_.reset();
    return state_.fail(Status::internal_error("a call on a device has lost its bounce buffer"));
  }
  for (plan::LaneCursor& lane : cursors_.lanes) lane = {1, plan::RingCursor(kRoomForAll)};
  crossing_->begin(state_.left());
  machine_.start(plan_->plan, plan_->in(crossing_->memory()), network.find_late);
  walk_.start(plan_->plan, cursors_);
}

Progress NetworkExecutor::advance() {
  const Progress progress = state_.ok() ? walk_.advance(machine_) : Progress::kDone;
  const bool over = progress == Progress::kDone || progress == Progress::kFailed || !state_.ok();
  if (!over) return progress;
  state_.show(nullptr);
  if (state_.ok()) crossing_->end();
  plan_.reset();
  crossing_.reset();
  return Progress::kDone;
}

ProgressSource::StepPlace NetworkExecutor::step() const {
  if (plan_ == nullptr) return {};
  return PlanStanding{&plan_->plan, walk_.positions()}.step();
}

}  // namespace tutti::exec
