#include "src/comm/call_frame.h"

namespace tutti::comm {

void CallFrame::fail_calls() {
  if (!status().ok()) return;
  state_.fail(failure_.check(), failure_.cause_or_self());
  publish_failure();
}

void CallFrame::conclude(const Status& outcome) {
  state_.end_wait();
  memory_.end_use();
  recorder().conclude(outcome.ok());
  if (!status().ok()) publish_failure();
}

// An error that ends the last call of a rank that leaves is nobody else's business, but for an
// abort.
void CallFrame::publish_failure() {
  if (state_.is_leaving() && failure_.is_abort_ordered()) state_.end_leaving();
  if (state_.is_leaving()) return;
  // The streams of a device, which hear of it elsewhere than from the call, blame the same rank.
  const uint64_t failed = state_.mine().counter(0).failed.load(std::memory_order_acquire);
  const auto loss = diagnosis::Loss::read(failed, state_.peers().size());
  failure_.fail(status(), loss ? loss->cause : diagnosis::Cause());
  memory_.shut();
  calls_.dump(status());
}

}  // namespace tutti::comm
