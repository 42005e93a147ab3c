// The order in which a machine that only enqueues goes on in the lanes of a plan.
//
// Such a machine is answered by nobody: it could put all of a slice of one lane before the next
// lane's. But where lanes are queues that run beside each other, what waits in one of them should
// come after what another one may do meanwhile, since queues may share the hardware's one. A turn
// is signals, what the lane waits for behind them, and the work behind that, up to the next
// signal: waits and work may be in any order there, since only signals let others go on, and a
// machine may put all waits before all work. So a lane gives up its turn when it has waited for
// peers and is about to signal. It also gives it up before the first work of another slice; what it
// waits for there belongs to the signal that ends the slice before, so machines let a lane go on
// into a second slice (Machine::kSlicesATurn is kSlices). And it gives it up before it waits again
// behind a fold, which no wait can overtake: other ranks may signal there, which ends their turns.
//
// Where messages flow one way a root awaits, before its next slice, what its readers signal behind
// theirs, a turn later than a rank that sends and reads alike. There a turn ends with the slice,
// and between waits and work.
//
// Level calls are made in one order by all ranks of a host, whatever else they have to do: a lane
// that has made the first one of a slice lets the other lanes make theirs before its next one.
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
  static constexpr uint64_t kSlices = 2;

  void start(const Plan& plan) {
    several_ = plan.lanes.size() > 1;
    one_way_ = plan.one_way;
    waited_.fill(false);
    closed_.fill(false);
    folded_.fill(false);
    level_lane_ = 0;
  }
  /// Whether another lane makes its level call first. The lane asks again later.
  bool gives_up_level(uint32_t lane) const { return several_ && lane != level_lane_; }
  /// The lane makes the level call.
  void level(const Plan& plan, uint32_t lane, uint64_t slice, uint32_t call) {
    const bool last = slice + 1 == plan.slices && call + 1 == plan.level_calls.size();
    if (call == 0 || last) {
      level_lane_ = (lane + 1) % static_cast<uint32_t>(plan.lanes.size());
    }
  }
  /// The lane has been asked to wait for peers.
  void wait(uint32_t lane) { waited_[lane] = several_; }
  /// The lane has folded values.
  void fold(uint32_t lane) { folded_[lane] = waited_[lane]; }
  /// A slice of the lane is over.
  void close(uint32_t lane) { closed_[lane] = several_; }
  /// The lane is about to wait, to do something, or to signal: whether it is another lane's turn
  /// first. The lane asks again later.
  bool gives_up_wait(uint32_t lane) {
    return (folded_[lane] || (one_way_ && closed_[lane])) && end(lane);
  }
  bool gives_up_work(uint32_t lane) {
    return (closed_[lane] || (one_way_ && waited_[lane])) && end(lane);
  }
  bool gives_up_signal(uint32_t lane) {
    return (waited_[lane] || (one_way_ && closed_[lane])) && end(lane);
  }

 private:
  bool end(uint32_t lane) {
    waited_[lane] = closed_[lane] = folded_[lane] = false;
    return true;
  }

  bool several_ = false, one_way_ = false;
  uint32_t level_lane_ = 0;                                     // whose turn it is with level calls
  std::array<bool, kMaxLanes> waited_{}, closed_{}, folded_{};  // since the lane's turn began
};

}  // namespace tutti::plan
