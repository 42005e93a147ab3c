// Groups go on without ranks that were killed, and with new ones.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_right(const std::string& network, int victim) {
  const auto outcome = testing_support::run_program(
      "edits", {"--network", network, "--victim", std::to_string(victim)}, 200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(KillEdits, OneHostWithoutRank0) { expect_right("default", 0); }
TEST(KillEdits, OneHostWithoutTheLast) { expect_right("default", 5); }
TEST(KillEdits, TcpWithoutRank0) { expect_right("tcp", 0); }
TEST(KillEdits, TwoHostsWithoutOneInTheMiddle) { expect_right("mixed", 2); }

}  // namespace
}  // namespace tutti::kill_test
