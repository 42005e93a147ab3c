// A few kills and stops; slow_kill_test.cc has the gate's many, and judges them by the second that
// the design promises. Here other tests run beside them.
#include <gtest/gtest.h>

#include "tests/support/sanitizer.h"
#include "tests/support/single_copies.h"
#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_survivors_know(const std::string& network, const std::string& algorithm = "",
                           const std::string& ordinary = "0") {
  const auto outcome = testing_support::run_program(
      "kill",
      {"--seed", "4711", "--repetitions", testing_support::kSanitized ? "2" : "5", "--network",
       network, "--algorithm", algorithm, "--ordinary", ordinary, "--slack", "4"},
      500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

void expect_survivors_know_though_children_live(const std::string& network) {
  const auto outcome = testing_support::run_program(
      "kill",
      {"--seed", "4711", "--repetitions", "2", "--ranks", "4", "--network", network, "--fork", "1"},
      500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

void expect_stopped_rank_is_blamed(const std::string& network, const std::string& algorithm) {
  const auto outcome =
      testing_support::run_program("kill",
                                   {"--seed", "42", "--repetitions", "1", "--network", network,
                                    "--signal", "stop", "--algorithm", algorithm, "--slack", "4"},
                                   500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Stop, OneHost) { expect_stopped_rank_is_blamed("default", "ring"); }
TEST(Stop, TwoHosts) { expect_stopped_rank_is_blamed("mixed", "double_binary_tree"); }

TEST(Kill, OneHostWithChildren) { expect_survivors_know_though_children_live("default"); }
TEST(Kill, TcpWithChildren) { expect_survivors_know_though_children_live("tcp"); }
TEST(Stop, OneSidedOnTwoHosts) { expect_stopped_rank_is_blamed("mixed", "one_sided"); }
TEST(Kill, OneSidedOnOneHost) { expect_survivors_know("default", "one_sided"); }
TEST(Kill, OneSidedToOrdinaryMemory) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  expect_survivors_know("default", "one_sided", "1");
  expect_survivors_know("mixed", "one_sided", "1");
}
TEST(Kill, OneSidedOverTcp) { expect_survivors_know("tcp", "one_sided"); }
TEST(Kill, OneSidedOnTwoHosts) { expect_survivors_know("mixed", "one_sided"); }

TEST(Kill, OneHost) { expect_survivors_know("default"); }
TEST(Kill, Tcp) { expect_survivors_know("tcp"); }
TEST(Kill, TwoHosts) { expect_survivors_know("mixed"); }

}  // namespace
}  // namespace tutti::kill_test
