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
  return testing_support::run_program("random_calls", arguments, 800);
}

TEST(RandomAlone, TwoHundredCalls) {
  const auto outcome = random_calls({"--seed", "1", "--jobs", "8", "--calls", "25", "--no-large"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// The reference computes the canonical tree itself, so equal to it means equal across algorithms,
// transports, placements and runs.
TEST(RandomAlone, DeterministicCallsAreBitwiseCanonical) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes minutes under the thread sanitizer";
#endif
  const auto outcome = random_calls(
      {"--seed", "2", "--jobs", "6", "--calls", "25", "--no-large", "--deterministic"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Every batch with its changes and calls, and what each rank makes of it.
std::string whole(const Job& job) {
  std::string text = describe(job);
  for (size_t i = 0; i < job.batches.size(); ++i) {
    const Batch& batch = job.batches[i];
    text += describe_step(job, step_of_changes(i)) + describe_step(job, step_of(i, kMaxBatch));
    for (int rank = 0; rank < job.ranks(); ++rank) {
      for (const size_t call : issue_order(batch, rank)) text += " " + std::to_string(call);
    }
  }
  return text;
}

TEST(RandomAlone, TheSameSeedMakesTheSameJob) {
  for (uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(whole(make_job(5, number, {})), whole(make_job(5, number, {})));
    EXPECT_NE(whole(make_job(5, number, {})), whole(make_job(6, number, {})));
  }
}

bool comes_before(const std::vector<size_t>& order, size_t a, size_t b) {
  return std::ranges::find(order, a) < std::ranges::find(order, b);
}

// Calls of one communicator or stream in one order; others in several.
TEST(RandomAlone, RanksIssueInOrdersThatMayDiffer) {
  Batch batch{Way::kTwoHost, std::vector<Call>(4)};
  batch.calls[1].communicator = batch.calls[2].communicator = 1;
  bool differ = false;
  for (int rank = 0; rank < 20; ++rank) {
    EXPECT_EQ(issue_order(batch, rank), (std::vector<size_t>{0, 1, 2, 3}));
    batch.handles = true;
    const std::vector<size_t> order = issue_order(batch, rank);
    EXPECT_TRUE(comes_before(order, 0, 3) && comes_before(order, 1, 2));  // communicators
    EXPECT_TRUE(comes_before(order, 0, 2) && comes_before(order, 1, 3));  // streams
    differ = differ || comes_before(order, 1, 0);
    batch.handles = false;
  }
  EXPECT_TRUE(differ);
}

TEST(RandomAlone, JobsWithoutOthersHaveOneCommunicator) {
  Limits limits;
  limits.one_communicator = true;
  for (uint64_t number = 0; number < 20; ++number) {
    const Job job = make_job(5, number, limits);
    ASSERT_EQ(job.communicators.size(), 1u);
    EXPECT_EQ(job.communicators[0].ranks(), job.ranks());
  }
}

TEST(RandomAlone, PairsThatNoCallHadAreNamed) {
  Pairs none(9);
  const size_t all = none.missing().size();
  EXPECT_GT(all, 1500u);
  Job job;
  job.shape = testing_support::TeamShape::threads(3);
  job.communicators.push_back(Communicator::of_all(3));
  Call call;  // an all_reduce
  call.problem.type = tuttiInt32;
  job.batches.push_back({Way::kBlocking, {call}});
  Pairs pairs(9);
  pairs.add(job);
  const std::vector<std::string> missing = pairs.missing();
  const size_t count = axes(9).size();
  EXPECT_EQ(missing.size(), all - count * (count - 1) / 2);  // one of every two axes was seen
  const auto is_missing = [&](const std::string& pair) {
    return std::ranges::count(missing, pair) == 1;
  };
  EXPECT_FALSE(is_missing("type int32 with ranks 3"));
  EXPECT_TRUE(is_missing("type int32 with ranks 4"));
  EXPECT_FALSE(is_missing("collective broadcast with operation sum"));  // there is none
}

TEST(RandomAlone, EnoughJobsHaveEveryPair) {
  Pairs pairs(9);
  for (uint64_t number = 0; number < 200; ++number) pairs.add(make_job(20260101, number, {}));
  EXPECT_THAT(pairs.missing(), testing::IsEmpty());
}

TEST(RandomAlone, ThePageOfAlgorithmsIsUnderstood) {
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
