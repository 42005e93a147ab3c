#include "perf/collectives/measure.h"

#include <gtest/gtest.h>

#include "perf/collectives/crew.h"
#include "perf/collectives/subgroup.h"

namespace tutti::perf {
namespace {

TEST(WarmUp, MovesTwoPassesOfTheRing) {
  EXPECT_EQ(warm_up_calls(256 << 10, 2), 64u);
  EXPECT_EQ(warm_up_calls(1 << 20, 4), 32u);
  EXPECT_EQ(warm_up_calls(64 << 20, 2), 1u);
  EXPECT_EQ(warm_up_calls(0, 2), kMostWarmUpCalls) << "a barrier";
}

TEST(WarmUp, ComesBeforeTheSweepUnlessNothingIsWarmedUp) {
  for (const size_t warmup : {0, 1}) {
    PerfOptions options;
    options.warmup = warmup;
    options.sizes.list = {4 << 20, 256 << 10};
    const std::vector<Case> cases = {{4 << 20, tuttiFloat32, tuttiSum, 0},
                                     {256 << 10, tuttiFloat32, tuttiSum, 0},
                                     {256 << 10, tuttiInt8, tuttiSum, 0}};
    const int result = run_crew({1, 2}, [&](const RankContext& context) {
      Measurement measurement(context, whole_group(context), options);
      return static_cast<int>(measurement.warm_up(cases));
    });
    // The type does not count. A slow machine may stop early.
    EXPECT_EQ(result > 0, warmup > 0);
    EXPECT_LE(result, 4 + 64);
  }
}

}  // namespace
}  // namespace tutti::perf
