#include "perf/collectives/machine_load.h"

#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

TEST(MachineLoad, OwnWorkIsNotTheOthers) {
  const ProcessorTime before{100, 50, 10};
  EXPECT_DOUBLE_EQ(share_of_others(before, {120, 65, 20}), 0.25);
  EXPECT_DOUBLE_EQ(share_of_others(before, {120, 60, 20}), 0);
  EXPECT_DOUBLE_EQ(share_of_others(before, {120, 55, 20}), 0);  // clocks tick unequally
  EXPECT_DOUBLE_EQ(share_of_others(before, before), 0);
}

TEST(MachineLoad, TheMachineHasAClock) {
  const ProcessorTime time = processor_time();
  EXPECT_GT(time.total, time.busy);
  EXPECT_GT(time.busy, 0);
}

}  // namespace
}  // namespace tutti::perf
