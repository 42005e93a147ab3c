#include "perf/collectives/core_distance.h"

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

}  // namespace
}  // namespace tutti::perf
