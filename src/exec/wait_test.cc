#include "src/exec/wait.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
thread_local int yields = 0;
}

// In place of libc's: counts.
extern "C" int sched_yield() noexcept {
  ++yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace tutti::exec {
namespace {

TEST(Backoff, YieldsBehindItsSpinsAndSpinsAgainWhenSomethingMoved) {
  Backoff backoff(3);
  yields = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(backoff.pause());
  EXPECT_EQ(yields, 0);
  for (int i = 0; i < 10; ++i) backoff.pause();
  EXPECT_EQ(yields, 10);
  backoff.reset();
  for (int i = 0; i < 3; ++i) backoff.pause();
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
  while (yields < 3999) rare += backoff.pause() ? 1 : 0;
  EXPECT_EQ(rare, 3999 / 16);
  EXPECT_TRUE(backoff.pause());  // a nap
  EXPECT_EQ(yields, 3999);
}

TEST(Spins, AreManyOnlyWhereEveryRankHasACoreAndNoPollIsASystemCall) {
  EXPECT_GT(spins_for({.sharing = 2, .cores = 2}), 1000u);
  EXPECT_LT(spins_for({.sharing = 3, .cores = 2}), 10u);
  EXPECT_LT(spins_for({.sharing = 1, .cores = 2, .has_streams = true}), 10u);
  EXPECT_LT(spins_for({.sharing = 2, .cores = 64, .has_streams = true}), 10u);
}

}  // namespace
}  // namespace tutti::exec
