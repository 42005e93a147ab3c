#include "src/base/wait.h"

#include <gtest/gtest.h>

#include <ctime>

namespace {
thread_local int yields = 0;
thread_local bool is_crowded = false;
}  // namespace

// In place of libc's: counts, and others take the processor for long if it is crowded.
extern "C" int sched_yield() noexcept {
  ++yields;
  if (!is_crowded) return 0;
  const timespec turn{0, 2'000'000};
  return nanosleep(&turn, nullptr);
}

namespace tutti {
namespace {

// This test may lose the processor between two looks at the clock.
bool pause_alone(Backoff& backoff) {
  naps_left = 0;
  return backoff.pause();
}

TEST(Backoff, YieldsBehindItsSpinsAndSpinsAgainWhenSomethingMoved) {
  Backoff backoff(3);
  yields = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(backoff.pause());
  EXPECT_EQ(yields, 0);
  for (int i = 0; i < 10; ++i) pause_alone(backoff);
  EXPECT_EQ(yields, 10);
  backoff.reset();
  for (int i = 0; i < 3; ++i) pause_alone(backoff);
  EXPECT_EQ(yields, 10);
}

TEST(Backoff, LooksAtWhatIsRareHoweverLongItSpins) {
  Backoff backoff(~0u);
  int polls = 0;
  while (polls < 1 << 20 && !backoff.pause()) ++polls;
  EXPECT_LT(polls, 1 << 20);
}

TEST(Backoff, LooksAtWhatIsRareWhileItYieldsAndWheneverItSlept) {
  Backoff backoff(0);
  yields = 0;
  int rare = 0;
  while (yields < 3999) rare += pause_alone(backoff) ? 1 : 0;
  EXPECT_EQ(rare, 3999 / 16);
  EXPECT_TRUE(pause_alone(backoff));  // a nap
  EXPECT_EQ(yields, 3999);
}

// It looks again now and then whether they still do.
TEST(Backoff, NapsInsteadOfYieldsWhereOthersTakeTheProcessorForLong) {
  naps_left = 0;
  yields = 0;
  is_crowded = true;
  (void)Backoff(0).pause();
  EXPECT_EQ(yields, 1);
  for (uint32_t naps = naps_left; naps > 0; --naps) EXPECT_TRUE(Backoff(0).pause());
  EXPECT_EQ(yields, 1) << "also in later waits";
  is_crowded = false;
  (void)Backoff(0).pause();
  EXPECT_EQ(yields, 2);
}

TEST(Backoff, TakesFewNapsAfterOneLongYieldAndManyWhereAllAreLong) {
  nap_habit = NapHabit();
  EXPECT_EQ(nap_habit.yielded_for_long(), 4u);
  EXPECT_EQ(nap_habit.yielded_for_long(), 16u);
  for (uint32_t i = 1; i < NapHabit::kForgets; ++i) nap_habit.yielded_shortly();
  EXPECT_EQ(nap_habit.yielded_for_long(), 64u);
  EXPECT_EQ(nap_habit.yielded_for_long(), 128u);
  EXPECT_EQ(nap_habit.yielded_for_long(), 128u);
  for (uint32_t i = 0; i < NapHabit::kForgets; ++i) nap_habit.yielded_shortly();
  EXPECT_EQ(nap_habit.yielded_for_long(), 4u);
}

TEST(Spins, AreManyOnlyWhereEveryRankHasACoreAndNoPollIsASystemCall) {
  EXPECT_GT(spins_for({.sharing = 2, .cores = 2}), 1000u);
  EXPECT_LT(spins_for({.sharing = 3, .cores = 2}), 10u);
  EXPECT_LT(spins_for({.sharing = 1, .cores = 2, .has_streams = true}), 10u);
  EXPECT_LT(spins_for({.sharing = 2, .cores = 64, .has_streams = true}), 10u);
}

}  // namespace
}  // namespace tutti
