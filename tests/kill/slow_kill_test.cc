// Fifty kills at random instants, as the gate demands.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_survivors_know(const std::string& network, const std::string& repetitions) {
  const std::string seed = std::to_string(std::time(nullptr));  // printed by the program
  const auto outcome = testing_support::run_program(
      "kill", {"--seed", seed, "--repetitions", repetitions, "--network", network}, 1200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

TEST(SlowKill, FiftyOnOneHost) { expect_survivors_know("default", "50"); }
TEST(SlowKill, FiftyOverTcp) { expect_survivors_know("tcp", "50"); }
TEST(SlowKill, TwentyOnTwoHosts) { expect_survivors_know("mixed", "20"); }

}  // namespace
}  // namespace tutti::kill_test
