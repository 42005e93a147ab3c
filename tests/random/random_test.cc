// A few hundred random calls; slow_random_test.cc makes thousands. The seed is printed, so that
// what fails can be run again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/random/job.h"
#include "tests/random/pairs.h"
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
  const auto outcome = random_calls(
      {"--seed", "2", "--jobs", "6", "--calls", "25", "--no-large", "--deterministic"});
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

TEST(Random, PairsThatNoCallHadAreNamed) {
  Pairs none(9);
  const size_t all = none.missing().size();
  EXPECT_GT(all, 800u);
  Job job;
  job.shape = testing_support::TeamShape::threads(3);
  Call call;  // an all_reduce
  call.problem.type = tuttiInt32;
  job.batches.push_back({Way::kBlocking, {call}});
  Pairs pairs(9);
  pairs.add(job);
  const std::vector<std::string> missing = pairs.missing();
  EXPECT_EQ(missing.size(), all - 10 * 9 / 2);  // one of every two axes was seen
  const auto is_missing = [&](const std::string& pair) {
    return std::ranges::count(missing, pair) == 1;
  };
  EXPECT_FALSE(is_missing("type int32 with ranks 3"));
  EXPECT_TRUE(is_missing("type int32 with ranks 4"));
  EXPECT_FALSE(is_missing("collective broadcast with operation sum"));  // there is none
}

TEST(Random, EnoughJobsHaveEveryPair) {
  Pairs pairs(9);
  for (uint64_t number = 0; number < 200; ++number) pairs.add(make_job(20260101, number, {}));
  EXPECT_THAT(pairs.missing(), testing::IsEmpty());
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
