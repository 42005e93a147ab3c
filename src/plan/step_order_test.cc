#include "src/plan/step_order.h"

#include <gtest/gtest.h>

#include "src/schedule/builder.h"

namespace tutti::plan {
namespace {

using schedule::Builder;
using schedule::input;
using schedule::output;
using schedule::Schedule;

TEST(StepOrder, OfOneLaneIsThatOfItsSteps) {
  Builder builder(0);
  for (int i = 0; i < 3; ++i) builder.copy(output(0), input(0));
  const StepOrder order(std::move(builder).finish());
  EXPECT_TRUE(order.total());
  EXPECT_TRUE(order.before(0, 2));
  EXPECT_FALSE(order.before(2, 0));
  EXPECT_FALSE(order.before(1, 1));
}

// Lane 0 has steps 0 and 3, lane 1 steps 1 and 4, lane 2 steps 2 and 5; `joins` says whether step 4
// is after step 0, and step 5 after step 4.
Schedule three_lanes(bool joins) {
  Builder builder(0);
  for (int round = 0; round < 2; ++round) {
    for (uint16_t lane = 0; lane < 3; ++lane) {
      builder.lane(lane);
      const auto step = builder.copy(output(lane), input(lane));
      if (joins && step == 4) builder.after(step, 0);
      if (joins && step == 5) builder.after(step, 4);
    }
  }
  return std::move(builder).finish();
}

TEST(StepOrder, BetweenLanesIsWhatAfterSays) {
  const StepOrder order(three_lanes(true));
  EXPECT_TRUE(order.before(0, 3));  // of one lane
  EXPECT_TRUE(order.before(0, 4));
  EXPECT_TRUE(order.before(0, 5));  // by way of step 4
  EXPECT_TRUE(order.before(1, 5));
  EXPECT_FALSE(order.before(3, 4));  // behind the step that is named
  EXPECT_FALSE(order.before(4, 0));
  EXPECT_FALSE(order.before(2, 4));
}

TEST(StepOrder, DoesNotFollowFromPlacesInTheSchedule) {
  const StepOrder order(three_lanes(false));
  EXPECT_TRUE(order.before(1, 4));
  EXPECT_FALSE(order.before(0, 4));
  EXPECT_FALSE(order.before(0, 5));
}

}  // namespace
}  // namespace tutti::plan
