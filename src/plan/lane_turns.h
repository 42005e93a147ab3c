// The order in which a machine that only enqueues goes on in the lanes of a plan.
//
// Such a machine is answered by nobody: it could put all of a slice of one lane before the next
// lane's. But where lanes are queues that run beside each other, what waits in one of them should
// come after what another one may do meanwhile, since queues may share the hardware's one. So a
// lane gives up its turn when it has waited for peers and is about to do something: a turn is work,
// signals, and the waits of what comes next. It also ends with the slice (Machine::kSlicesATurn of
// such machines is 1).
//
// All that a rank so enqueues is a list, which verify_plans() proves that one queue can run
// (VerifyPlanOptions::in_one_queue).
//
// Threads: values. Errors: none.
#pragma once

#include <array>
#include <cstdint>

#include "src/plan/plan.h"

namespace tutti::plan {

class LaneTurns {
 public:
  void start(const Plan& plan) {
    several_ = plan.lanes.size() > 1;
    waited_.fill(false);
  }
  /// The lane has been asked to wait for peers.
  void wait(uint32_t lane) { waited_[lane] = several_; }
  /// The lane is about to do something: whether it is another lane's turn first. The lane asks
  /// again later.
  bool gives_up(uint32_t lane) {
    const bool waited = waited_[lane];
    waited_[lane] = false;
    return waited;
  }
  /// A slice of the lane is over, and with it its turn.
  void close(uint32_t lane) { waited_[lane] = false; }

 private:
  bool several_ = false;
  std::array<bool, kMaxLanes> waited_{};
};

}  // namespace tutti::plan
