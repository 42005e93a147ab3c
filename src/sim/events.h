// The agenda of a simulation: what happens at which time, in one order for equal input.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "src/sim/time.h"

namespace tutti::sim {

enum class HappeningKind : uint8_t { kWake, kReady, kDue, kCopy, kLinkDies };
struct Happening {
  Time time = 0;
  uint64_t number = 0;  // of two at one time the earlier noted
  HappeningKind kind = HappeningKind::kWake;
  uint32_t which = 0;    // actor, message, flow, link
  uint32_t version = 0;  // of a flow
  bool operator>(const Happening& other) const {
    return time != other.time ? time > other.time : number > other.number;
  }
};

class Agenda {
 public:
  /// Not before now: what was due earlier is due at once.
  void note(Time time, HappeningKind kind, uint32_t which, uint32_t version = 0) {
    if (time == kNever) return;
    queue_.push({time < now_ ? now_ : time, ++noted_, kind, which, version});
  }
  Time now() const { return now_; }
  bool empty() const { return queue_.empty(); }
  /// Goes on to the next time at which something happens.
  void step() { now_ = queue_.top().time; }
  bool has_now() const { return !queue_.empty() && queue_.top().time == now_; }
  Happening take() {
    const Happening event = queue_.top();
    queue_.pop();
    return event;
  }
  uint64_t noted() const { return noted_; }

 private:
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> queue_;
  Time now_ = 0;
  uint64_t noted_ = 0;
};

}  // namespace tutti::sim
