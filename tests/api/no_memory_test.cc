// Memory that runs out in any call of the C API is an error of that call, with words.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

void expect_right(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("no_memory", arguments, 900);
  if (outcome.exit_code == 77) GTEST_SKIP() << "a sanitizer has functions of its own";
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(NoMemory, AnyAllocationMayFail) { expect_right({}); }

// The test above leaves most of the later allocations out, and their numbers vary from run to run.
TEST(NoMemory, LateAllocationsOfAMakingMayFail) {
  constexpr int kRuns = 5;
  for (int run = 0; run < kRuns; ++run) expect_right({"--only", "alone", "--dense", "100"});
}

}  // namespace
}  // namespace tutti::api_test
