// Calls behind the end of a thread's thread_local objects.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

void expect_right(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("ends", arguments, 240);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "ended\n");
}

TEST(Ends, AGlobalObjectCallsBehindExit) { expect_right({}); }
TEST(Ends, AThreadLocalObjectCallsWhenItsThreadEnds) { expect_right({"--thread"}); }

}  // namespace
}  // namespace tutti::api_test
