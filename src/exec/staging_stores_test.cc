#include "src/exec/staging_stores.h"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

// Runs moves of 64 KiB on processors with these costs.
class Simulation {
 public:
  double cached_ns = 3000;
  double streaming_ns = 2700;
  uint64_t now_ns = 1;
  uint64_t streamed = 0;

  void run(int moves) {
    for (int i = 0; i < moves; ++i) {
      const StagingChoice::Turn turn = choice.next(kBytes);
      const auto ns = static_cast<uint64_t>(turn.streaming ? streaming_ns : cached_ns);
      now_ns += ns;
      streamed += turn.streaming;
      if (turn.timed) choice.took(kBytes, turn, ns, now_ns);
    }
  }

  uint64_t streamed_of(int moves) {
    streamed = 0;
    run(moves);
    return streamed;
  }

  static constexpr uint64_t kBytes = 65536;
  StagingChoice choice;
};

TEST(StagingChoice, CachedBetweenNearProcessors) {
  Simulation near;
  near.run(100);
  EXPECT_LE(near.streamed_of(10'000), 10u);  // 30 ms: two trials
}

TEST(StagingChoice, StreamingBetweenFarProcessors) {
  Simulation far;
  far.cached_ns = 28'000;
  far.run(100);
  EXPECT_GE(far.streamed_of(10'000), 9'990u);
}

TEST(StagingChoice, FollowsTheProcessorsAsTheyMove) {
  Simulation moved;
  moved.run(100);
  moved.cached_ns = 28'000;
  EXPECT_GE(moved.streamed_of(1000), 970u) << "two timed moves of eight show that it has changed";
  moved.cached_ns = 3000;
  moved.run(20'000'000 / 2700 + 10);  // until the next trial
  EXPECT_LE(moved.streamed_of(1000), 10u);
}

TEST(StagingChoice, OneInterruptedMoveChangesNothing) {
  Simulation busy;
  busy.run(100);
  for (int i = 0; i < 50; ++i) {
    busy.cached_ns = 1e6;
    busy.run(1);
    busy.cached_ns = 3000;
    busy.run(8);
  }
  EXPECT_LE(busy.streamed_of(1000), 10u);
}

TEST(StagingChoice, SizesAreJudgedApart) {
  Simulation far;
  far.cached_ns = 28'000;
  far.run(100);
  EXPECT_TRUE(far.choice.next(Simulation::kBytes).streaming);
  EXPECT_FALSE(far.choice.next(StagingChoice::kLeastBytes).streaming);
  EXPECT_FALSE(far.choice.next(uint64_t{1} << 40).streaming);
}

}  // namespace
}  // namespace tutti::exec
