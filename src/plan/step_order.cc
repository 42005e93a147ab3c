#include "src/plan/step_order.h"

#include <algorithm>

namespace tutti::plan {

StepOrder::StepOrder(const schedule::Schedule& schedule) : lanes_(schedule.lanes) {
  if (total()) return;
  constexpr uint32_t kNone = ~0u;
  std::vector<uint32_t> latest(lanes_, kNone);  // step of each lane
  clocks_.assign(schedule.steps.size() * lanes_, 0);
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const schedule::Step& step = schedule.steps[i];
    uint32_t* clock = clocks_.data() + size_t{i} * lanes_;
    const auto follow = [&](uint32_t earlier) {
      const uint32_t* other = clocks_.data() + size_t{earlier} * lanes_;
      for (uint16_t lane = 0; lane < lanes_; ++lane)
        clock[lane] = std::max(clock[lane], other[lane]);
    };
    if (latest[step.lane] != kNone) follow(latest[step.lane]);
    for (const uint32_t earlier : schedule.afters_of(step)) follow(earlier);
    clock[step.lane] = i + 1;
    latest[step.lane] = i;
    lane_.push_back(step.lane);
  }
}

}  // namespace tutti::plan
