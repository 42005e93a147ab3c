// A few hundred random calls; slow_random_test.cc makes thousands. The seed is printed, so that
// what fails can be run again.
#include <gtest/gtest.h>

#include "tests/random/job.h"
#include "tests/support/algorithm_names.h"
#include "tests/support/subprocess.h"

namespace tutti::random_calls {
namespace {

testing_support::Outcome random_calls(std::vector<std::string> arguments) {
  return testing_support::run_program("random_calls", arguments, 280);
}

TEST(Random, TwoHundredCalls) {
  const auto outcome = random_calls({"--seed", "1", "--jobs", "8", "--calls", "25", "--no-large"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// The reference computes the canonical tree itself, so equal to it means equal across algorithms,
// transports, placements and runs.
TEST(Random, DeterministicCallsAreBitwiseCanonical) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes minutes under the thread sanitizer";
#endif
  const auto outcome =
      random_calls({"--seed", "2", "--jobs", "6", "--calls", "25", "--no-large",
                    "--deterministic"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Random, TheSameSeedMakesTheSameJob) {
  for (uint64_t number = 0; number < 20; ++number) {
    const Job one = make_job(5, number, {});
    const Job two = make_job(5, number, {});
    EXPECT_EQ(describe(one), describe(two));
    ASSERT_EQ(one.batches.size(), two.batches.size());
    for (size_t i = 0; i < one.batches.size(); ++i) {
      for (size_t k = 0; k < one.batches[i].calls.size(); ++k) {
        EXPECT_EQ(describe(one.batches[i].calls[k]), describe(two.batches[i].calls[k]));
      }
    }
  }
}

TEST(Random, ThePageOfAlgorithmsIsUnderstood) {
  int canonical = 0, with_lanes = 0;
  for (const auto& algorithm : testing_support::listed_algorithms()) {
    canonical += algorithm.canonical ? 1 : 0;
    with_lanes += algorithm.max_lanes > 1 ? 1 : 0;
  }
  EXPECT_GE(canonical, 4);
  EXPECT_GE(with_lanes, 3);
}

}  // namespace
}  // namespace tutti::random_calls
