// However few cores there are, every collective completes on so many ranks: some numbers up to 64,
// and with TEST_THOROUGH=1 all.
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

using Range = std::pair<const char*, const char*>;

void expect_all_right(std::vector<Range> ranges, const char* processes) {
  if (testing_support::thorough()) ranges = {{"1", "64"}};
  for (const auto& [from, to] : ranges) {
    expect_right({"--from", from, "--to", to, "--processes", processes});
  }
}

TEST(SlowRanksAlone, AsThreads) {
  expect_all_right({{"1", "17"}, {"24", "24"}, {"31", "33"}, {"48", "48"}, {"63", "64"}}, "0");
}

TEST(SlowRanksAlone, AsProcesses) {
  expect_all_right({{"1", "9"}, {"16", "17"}, {"33", "33"}, {"64", "64"}}, "1");
}

TEST(SlowRanksAlone, ManyOverTcp) {
  expect_right({"--from", "16", "--to", "20", "--processes", "1", "--network", "tcp"});
}

TEST(SlowRanksAlone, SixtyFourTouchABoundedPartOfTheirArenas) {
  expect_right({"--ranks", "64"}, "footprint");
}

// No assertion on time: the number is for people.
TEST(SlowRanksAlone, SmallAllReduceOfSixteen) {
  expect_right({"--median", "16", "--processes", "1"});
  expect_right({"--median", "16"});
}

}  // namespace
}  // namespace tutti::ranks_test
