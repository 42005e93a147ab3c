// Many kills and stops at random instants; with TEST_THOROUGH=1 a hundred of each, by ring
// and by tree, and judged by the second that the design promises: nothing else should run then. By
// default other tests share the processors, and a few seconds more are allowed.
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::kill_test {
namespace {

void expect_right(std::vector<std::string> arguments) {
  if (!testing_support::thorough()) arguments.insert(arguments.end(), {"--slack", "4"});
  const auto outcome = testing_support::run_program("kill", arguments, 1200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

std::string a_seed() { return std::to_string(std::time(nullptr)); }  // the program prints it

void expect_survivors_know(const std::string& network, const std::string& repetitions) {
  expect_right({"--seed", a_seed(), "--repetitions", repetitions, "--network", network});
  if (!testing_support::thorough()) return;
  for (const char* algorithm : {"ring", "double_binary_tree"}) {
    expect_right({"--seed", a_seed(), "--repetitions", "100", "--network", network, "--algorithm",
                  algorithm});
  }
}

// Stops take the deadline each, so a few by default.
void expect_stopped_rank_is_blamed(const std::string& network) {
  const char* repeat = testing_support::thorough() ? "100" : "3";
  for (const char* algorithm : {"", "ring", "double_binary_tree"}) {
    expect_right({"--seed", a_seed(), "--repetitions", repeat, "--network", network, "--signal",
                  "stop", "--algorithm", algorithm});
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
