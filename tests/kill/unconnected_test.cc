// Ranks that are connected with few others learn of deaths and find who is to blame all the same.
#include <gtest/gtest.h>

#include "tests/support/sanitizer.h"
#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_right(const std::string& what, const std::string& per_host,
                  const std::string& flag = "") {
  std::vector<std::string> arguments = {"--case", what, "--per-host", per_host};
  if (!flag.empty()) arguments.insert(arguments.end(), {flag, "yes"});
  const auto outcome = testing_support::run_program("unconnected", arguments, 200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Where nobody can know of the death, the program must say that nobody did.
TEST(Unconnected, ADeathThatNobodyCanTellIsFoundMissing) {
  if (testing_support::kSanitized) GTEST_SKIP() << "takes a minute under a sanitizer";
  const auto outcome =
      testing_support::run_program("unconnected", {"--case", "death", "--cut", "yes"}, 200);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("FAILED: rank 0 got no error"), std::string::npos)
      << outcome.output;
}

TEST(Unconnected, ADeathIsToldToAllHosts) { expect_right("death", "1"); }
TEST(Unconnected, ADeathIsToldToAllRanksOfAllHosts) { expect_right("death", "2"); }
TEST(Unconnected, WhatAllSeeIsToldOnce) { expect_right("death", "1", "--connected"); }
TEST(Unconnected, ARankThatGivesUpIsToldOf) { expect_right("abort", "1"); }
TEST(Unconnected, AHostTellsThatOneOfItsRanksGaveUp) { expect_right("abort", "2"); }
TEST(Unconnected, AHostSeesOneOfItsRanksGiveUpAndLeave) { expect_right("quit", "2"); }
TEST(Unconnected, ARankInNoCallTellsItOn) {
  expect_right("death", "2", "--asleep");
  expect_right("abort", "2", "--asleep");
}
TEST(Unconnected, WhoLeavesInGoodOrderIsNotTakenForDead) { expect_right("leave", "1"); }
TEST(Unconnected, WhoLeavesAHostInGoodOrderIsNotTakenForDead) { expect_right("leave", "2"); }
TEST(Unconnected, WhoLeavesInGoodOrderIsConnectedFirst) { expect_right("leave", "1", "--late"); }
TEST(Unconnected, AChainOfStrangersIsFollowedToItsEnd) { expect_right("blame", "1"); }

}  // namespace
}  // namespace tutti::kill_test
