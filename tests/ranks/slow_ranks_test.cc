// Every number of ranks from 1 to 64 completes every collective, however few cores there are.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::ranks_test {
namespace {

void expect_right(std::vector<std::string> arguments, const std::string& program = "ranks") {
  const auto outcome = testing_support::run_program(program, arguments, 1500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

TEST(SlowRanks, EveryNumberAsThreads) { expect_right({"--from", "1", "--to", "64"}); }

TEST(SlowRanks, EveryNumberAsProcesses) {
  expect_right({"--from", "1", "--to", "64", "--processes", "1"});
}

TEST(SlowRanks, ManyOverTcp) {
  expect_right({"--from", "16", "--to", "20", "--processes", "1", "--network", "tcp"});
}

TEST(SlowRanks, SixtyFourTouchABoundedPartOfTheirArenas) {
  expect_right({"--ranks", "64"}, "footprint");
}

// No assertion on time: the number is for people.
TEST(SlowRanks, SmallAllReduceOfSixteen) {
  expect_right({"--median", "16", "--processes", "1"});
  expect_right({"--median", "16"});
}

}  // namespace
}  // namespace tutti::ranks_test
