// Many small calls across the end of the 32 bits that number them: with TEST_THOROUGH=1 ten
// million of each kind, by every network.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::ranks_test {
namespace {

void expect_right(std::vector<std::string> arguments, const std::string& calls) {
  const std::string many = testing_support::thorough() ? "10000000" : calls;
  arguments.insert(arguments.end(), {"--ranks", "2", "--calls", many});
  const auto outcome = testing_support::run_program("numbers", arguments, 6000);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::fputs(outcome.output.c_str(), stdout);
}

TEST(SlowNumbersAlone, AsProcesses) { expect_right({}, "200000"); }
TEST(SlowNumbersAlone, AsThreads) { expect_right({"--threads", "1"}, "200000"); }
TEST(SlowNumbersAlone, OverTcp) { expect_right({"--network", "tcp"}, "20000"); }
TEST(SlowNumbersAlone, OverTwoHosts) { expect_right({"--network", "mixed"}, "20000"); }

}  // namespace
}  // namespace tutti::ranks_test
