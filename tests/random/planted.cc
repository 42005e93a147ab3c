#include "tests/random/planted.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::random_calls {
namespace {

constexpr uint64_t kPatienceNs = 2'000'000'000;

void hunt(const Fault& fault, const std::vector<std::string>& words, bool bounded) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "many faults are races, and the thread sanitizer sees them";
#endif
  for (uint64_t number = 0; number < kPlantedJobs; ++number) {
    const testing_support::TeamResult result = run_planted(number, fault, bounded);
    if (result.ok) continue;
    EXPECT_TRUE(std::ranges::any_of(words, [&](const std::string& word) {
      return result.report.find(word) != std::string::npos;
    })) << result.report;
    return;
  }
  ADD_FAILURE() << "not found";
}

}  // namespace

testing_support::TeamResult run_planted(uint64_t number, const Fault& fault, bool bounded) {
  Limits limits;
  limits.calls = 25;
  limits.min_ranks = 2;
  limits.max_ranks = 3;
  limits.large = false;
  limits.single_copies = false;
  Job job = make_job(31, number, limits);
  if (bounded) {
    job.deadline_ns = kPatienceNs;
    for (testing_support::Environment& environment : job.shape.environment) {
      environment["TUTTI_TIMEOUT"] = std::to_string(kPatienceNs / 1'000'000'000);
    }
  }
  return run_job(job, fault);
}

void expect_found(const Fault& fault, const std::string& words) { hunt(fault, {words}, false); }

void expect_different_calls(const Fault& fault) {
  hunt(fault,
       {"differs between ranks", "in different calls", "does not match", "passed its deadline",
        "is forced by the options"},  // of the communicator, on a call that has its own
       true);
}

}  // namespace tutti::random_calls
