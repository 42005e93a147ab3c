// Communicators with open windows and registered memory are edited in place while a rank is killed
// or stopped. The slow test of the same name draws more.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_kept(const std::string& scenario, const std::string& network, int seed) {
  const std::vector<std::string> arguments = {"--scenario", scenario, "--network",
                                              network,      "--seed", std::to_string(seed)};
  const auto outcome = testing_support::run_program("window_edits", arguments, 200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Seeds: odd ones put little at a time; without a factor of 3 memory is registered.
TEST(WindowEdits, WithoutADeadRankOverSharedMemory) { expect_kept("kill", "default", 1); }
TEST(WindowEdits, WithoutADeadRankAmongLongPuts) { expect_kept("kill", "default", 6); }
TEST(WindowEdits, WithoutADeadRankOverTcp) { expect_kept("kill", "tcp", 2); }
TEST(WindowEdits, WithoutADeadRankOverBoth) { expect_kept("kill", "mixed", 4); }
TEST(WindowEdits, WithoutAStoppedRankThatIsInNoWindow) { expect_kept("stop", "default", 3); }
TEST(WindowEdits, WithoutAStoppedRankAmongLongPuts) { expect_kept("stop", "default", 6); }
TEST(WindowEdits, WithoutAStoppedRankThatKnowsRegisteredMemory) {
  expect_kept("stop", "default", 5);
}
TEST(WindowEdits, WithoutAStoppedRankOverTcp) { expect_kept("stop", "tcp", 2); }
TEST(WindowEdits, WithoutAStoppedRankOverBoth) { expect_kept("stop", "mixed", 8); }
TEST(WindowEdits, WithANewcomerForADeadRank) { expect_kept("replace", "default", 1); }
TEST(WindowEdits, WithANewcomerForADeadRankOverTcp) { expect_kept("replace", "tcp", 2); }
TEST(WindowEdits, WithANewcomerForADeadRankOverBoth) { expect_kept("replace", "mixed", 3); }

}  // namespace
}  // namespace tutti::kill_test
