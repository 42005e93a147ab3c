#include "perf/collectives/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace tutti::perf {
namespace {

TEST(CoreDistance, OneProcessorHasNone) {
  std::thread([] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_FALSE(core_round_trip_ns().has_value());
  }).join();
  EXPECT_EQ(core_distance_text(std::nullopt), "one processor only");
}

TEST(CoreDistance, TwoProcessorsHaveOne) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const std::optional<double> ns = core_round_trip_ns();
  ASSERT_TRUE(ns.has_value());
  EXPECT_GT(*ns, 0);
  EXPECT_EQ(core_distance_text(110.4), "110 ns");
}

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

TEST(MachineLoad, AProcessHoldsMemory) { EXPECT_GT(resident_bytes(), 0); }

}  // namespace
}  // namespace tutti::perf
