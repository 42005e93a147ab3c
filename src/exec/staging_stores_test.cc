#include "src/exec/staging_stores.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::exec {
namespace {

// Runs moves of 64 KiB on processors with these costs.
class Simulation {
 public:
  double cached_ns = 3000;
  double streaming_ns = 2700;
  int readers = 1;  // in turn; one of several runs on the writer's processor
  uint64_t now_ns = 1;
  uint64_t streamed = 0;

  void run(int moves) {
    for (int i = 0; i < moves; ++i) {
      const StagingChoice::Turn turn = choice.next(kBytes);
      const bool is_near = readers > 1 && i % readers == 0;
      const double cached = is_near ? kNearNs : cached_ns;
      const auto ns = static_cast<uint64_t>(turn.streaming ? streaming_ns : cached);
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
  static constexpr double kNearNs = 3000;
  StagingChoice choice;
};

TEST(StagingChoice, CachedBetweenNearProcessors) {
  Simulation near;
  near.run(100);
  EXPECT_LE(near.streamed_of(10'000), 12u);  // 30 ms: two trials
}

TEST(StagingChoice, StreamingBetweenFarProcessors) {
  Simulation far;
  far.cached_ns = 28'000;
  far.run(100);
  EXPECT_GE(far.streamed_of(10'000), 9'970u);
}

TEST(StagingChoice, StreamingWhereSomeReadersAreFar) {
  for (int readers : {2, 3, 4, 8}) {
    Simulation mixed;
    mixed.readers = readers;
    mixed.cached_ns = 28'000;
    mixed.run(2000);
    EXPECT_GE(mixed.streamed_of(20'000), 18'000u) << readers << " readers, one near";
  }
}

// Readers take turns: every eighth move may go to the same one.
TEST(StagingChoice, TimesMovesToEachOfEightReaders) {
  StagingChoice choice;
  std::array<int, StagingChoice::kTimedEvery> timed{};
  for (int i = 0; i < 8000; ++i) timed[i % timed.size()] += choice.next(Simulation::kBytes).timed;
  for (const int count : timed) EXPECT_NEAR(count, 125, 50);
}

TEST(StagingChoice, TrialsTakeLittleTime) {
  Simulation far;
  far.cached_ns = 3'000'000;
  far.run(1000);
  const uint64_t begin_ns = far.now_ns;
  const uint64_t moves = 2'000'000;
  const uint64_t cached = moves - far.streamed_of(moves);
  EXPECT_GE(cached, StagingChoice::kTrialMoves) << "it still tries";
  EXPECT_LE(cached * 3'000'000, (far.now_ns - begin_ns) / 50);
}

TEST(StagingChoice, FollowsTheProcessorsAsTheyMove) {
  Simulation moved;
  moved.run(100);
  moved.cached_ns = 28'000;
  EXPECT_GE(moved.streamed_of(1000), 900u) << "eight timed moves show that it has changed";
  moved.cached_ns = 3000;
  moved.run(5 * 20'000'000 / 2700);  // a few trials
  EXPECT_LE(moved.streamed_of(1000), 12u);
}

TEST(StagingChoice, OneInterruptedMoveChangesNothing) {
  Simulation busy;
  busy.run(100);
  uint64_t streamed = 0;
  for (int i = 0; i < 1000; ++i) {
    busy.cached_ns = 1e6;
    streamed += busy.streamed_of(1);
    busy.cached_ns = 3000;
    streamed += busy.streamed_of(49);
  }
  EXPECT_LE(streamed, 500u) << "of 50000; a move of fifty was interrupted";
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
