// A million agreements under faults, none of which breaks a promise.
#include <gtest/gtest.h>

#include "tests/consensus/simulation.h"

namespace tutti::consensus {
namespace {

TEST(SlowAgreementRuns, KeepEveryPromiseAMillionTimes) {
  constexpr uint64_t kFirst = 1'000'000, kRuns = 1'000'000;
  EXPECT_EQ(first_violation(Rules(), kFirst, kRuns), "");
}

}  // namespace
}  // namespace tutti::consensus
