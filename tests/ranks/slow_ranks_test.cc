// Every number of ranks from 1 to 64 completes every collective, however few cores there are. As
// processes only some numbers, and with TUTTI_TEST_THOROUGH=1 all.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::ranks_test {
namespace {

void expect_right(std::vector<std::string> arguments, const std::string& program = "ranks") {
  const auto outcome = testing_support::run_program(program, arguments, 1500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

TEST(SlowRanks, EveryNumberAsThreads) { expect_right({"--from", "1", "--to", "64"}); }

TEST(SlowRanks, ManyNumbersAsProcesses) {
  using Range = std::pair<const char*, const char*>;
  std::vector<Range> ranges = {{"1", "9"}, {"16", "17"}, {"33", "33"}, {"64", "64"}};
  if (testing_support::thorough()) ranges = {{"1", "64"}};
  for (const auto& [from, to] : ranges) {
    expect_right({"--from", from, "--to", to, "--processes", "1"});
  }
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
