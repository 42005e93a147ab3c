// A few kills; slow_kill_test.cc has the gate's fifty.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_survivors_know(const std::string& network) {
  const auto outcome = testing_support::run_program(
      "kill", {"--seed", "4711", "--repetitions", "5", "--network", network}, 200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Kill, OneHost) { expect_survivors_know("default"); }
TEST(Kill, Tcp) { expect_survivors_know("tcp"); }
TEST(Kill, TwoHosts) { expect_survivors_know("mixed"); }

}  // namespace
}  // namespace tutti::kill_test
