// One communicator fails, or a rank of it stands still; others over the same ranks go on.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

class Beside : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_right(const std::string& what) const {
    const auto outcome =
        testing_support::run_program("beside", {"--case", what, "--network", GetParam()}, 200);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
};

TEST_P(Beside, ACallThatPassesItsDeadline) { expect_right("deadline"); }
TEST_P(Beside, CallsThatDiffer) { expect_right("differ"); }
TEST_P(Beside, AReceiverThatGivesUpInTheMiddleOfAMessage) { expect_right("abort"); }
TEST_P(Beside, AReceiverThatCallsNothing) { expect_right("silent"); }
TEST_P(Beside, AReceiverThatIsStoppedInTheMiddleOfAMessage) { expect_right("stopped"); }

TEST(BesideChecks, FindFaultsThatArePlanted) {
  for (const char* fault : {"sum", "connection"}) {
    const auto outcome =
        testing_support::run_program("beside", {"--case", "differ", "--planted", fault}, 200);
    EXPECT_EQ(outcome.exit_code, 1) << fault << outcome.output;
    const std::string words = fault == std::string("sum") ? "a wrong sum" : "these are others";
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Beside, ::testing::Values("tcp", "default"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tutti::kill_test
