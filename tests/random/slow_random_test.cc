// Thousands of random calls, with those of 64 MiB; with TEST_THOROUGH=1 ten thousand, among
// them every pair of properties.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::random_calls {
namespace {

TEST(SlowRandomAlone, ManyCalls) {
  std::vector<std::string> arguments = {"--seed", "20260101", "--calls", "50", "--jobs"};
  if (testing_support::thorough()) {
    arguments.insert(arguments.end(), {"200", "--every-pair"});
  } else {
    arguments.push_back("30");
  }
  const auto outcome = testing_support::run_program("random_calls", arguments, 6000);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

TEST(SlowRandomAlone, DeterministicCalls) {
  const auto outcome = testing_support::run_program(
      "random_calls", {"--seed", "77", "--jobs", "12", "--calls", "50", "--deterministic"}, 900);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace tutti::random_calls
