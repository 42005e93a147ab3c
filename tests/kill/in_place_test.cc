// Communicators are edited in place while ranks are killed, stopped, replaced and added. The slow
// test of the same name draws more.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_edited(const std::string& scenario, const std::string& network, int seed) {
  const auto outcome = testing_support::run_program(
      "in_place", {"--scenario", scenario, "--network", network, "--seed", std::to_string(seed)},
      200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(EditsInPlace, WithoutADeadRankOverSharedMemory) { expect_edited("kill", "default", 1); }
TEST(EditsInPlace, WithoutADeadRankOverTcp) { expect_edited("kill", "tcp", 2); }
TEST(EditsInPlace, WithoutADeadRankOverBoth) { expect_edited("kill", "mixed", 3); }
TEST(EditsInPlace, WhileAnotherRankDies) { expect_edited("twice", "default", 4); }
TEST(EditsInPlace, WhileAnotherRankDiesOverBoth) { expect_edited("twice", "mixed", 5); }
TEST(EditsInPlace, ThatEndTooEarlyAndAreRepeated) { expect_edited("late", "mixed", 12); }
TEST(EditsInPlace, WithoutAStoppedRankOverSharedMemory) { expect_edited("stop", "default", 6); }
TEST(EditsInPlace, WithoutAStoppedRankOverTcp) { expect_edited("stop", "tcp", 7); }
TEST(EditsInPlace, WithANewcomerForADeadRank) { expect_edited("replace", "default", 8); }
TEST(EditsInPlace, WithANewcomerForADeadRankOverTcp) { expect_edited("replace", "tcp", 9); }
TEST(EditsInPlace, RepeatedWithNewcomersAndReversed) { expect_edited("join", "default", 10); }
TEST(EditsInPlace, RepeatedWithNewcomersAndReversedOverBoth) { expect_edited("join", "mixed", 11); }

}  // namespace
}  // namespace tutti::kill_test
