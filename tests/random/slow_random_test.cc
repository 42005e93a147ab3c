// Thousands of random calls, with those of 64 MiB.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::random_calls {
namespace {

TEST(SlowRandom, TwoThousandCalls) {
  const auto outcome = testing_support::run_program(
      "random_calls", {"--seed", "20260101", "--jobs", "42", "--calls", "50"}, 1500);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::printf("%s", outcome.output.c_str());
}

TEST(SlowRandom, DeterministicCalls) {
  const auto outcome = testing_support::run_program(
      "random_calls", {"--seed", "77", "--jobs", "12", "--calls", "50", "--deterministic"}, 900);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace tutti::random_calls
