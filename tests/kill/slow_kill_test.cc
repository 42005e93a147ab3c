// Many kills and stops at random instants; stops a hundred times with TUTTI_TEST_THOROUGH=1.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::kill_test {
namespace {

void expect_survivors_know(const std::string& network, const std::string& repetitions) {
  const std::string seed = std::to_string(std::time(nullptr));  // printed by the program
  const auto outcome = testing_support::run_program(
      "kill", {"--seed", seed, "--repetitions", repetitions, "--network", network}, 1200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

// Stops take the deadline each, so a few by default.
void expect_stopped_rank_is_blamed(const std::string& network) {
  const char* repeat = testing_support::thorough() ? "100" : "3";
  const std::string seed = std::to_string(std::time(nullptr));
  for (const char* algorithm : {"", "ring", "double_binary_tree"}) {
    const auto outcome = testing_support::run_program(
        "kill",
        {"--seed", seed, "--repetitions", repeat, "--network", network,
         "--signal", "stop", "--algorithm", algorithm},
        1200);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::printf("%s", outcome.output.c_str());
  }
}

TEST(SlowStop, OneHost) { expect_stopped_rank_is_blamed("default"); }
TEST(SlowStop, Tcp) { expect_stopped_rank_is_blamed("tcp"); }
TEST(SlowStop, TwoHosts) { expect_stopped_rank_is_blamed("mixed"); }

TEST(SlowKill, FiftyOnOneHost) { expect_survivors_know("default", "50"); }
TEST(SlowKill, FiftyOverTcp) { expect_survivors_know("tcp", "50"); }
TEST(SlowKill, TwentyOnTwoHosts) { expect_survivors_know("mixed", "20"); }

}  // namespace
}  // namespace tutti::kill_test
