// 200 kills at random instants, and 15 at each named one on each network, with the all_reduce that
// survives.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_survivals(const std::string& scenario, const std::string& network, int first,
                      int runs) {
  for (int seed = first; seed < first + runs; ++seed) {
    const auto outcome = testing_support::run_program(
        "fault_tolerant",
        {"--scenario", scenario, "--network", network, "--seed", std::to_string(seed)}, 300);
    ASSERT_EQ(outcome.exit_code, 0) << "seed " << seed << "\n" << outcome.output;
  }
}

class SlowFaultTolerantKills : public testing::TestWithParam<std::tuple<const char*, const char*>> {
};

TEST_P(SlowFaultTolerantKills, LeaveAllSurvivorsWithTheSameBits) {
  const auto [scenario, network] = GetParam();
  expect_survivals(scenario, network, 2000, std::string(scenario) == "random" ? 67 : 15);
}

class SlowElasticKills : public testing::TestWithParam<const char*> {};

TEST_P(SlowElasticKills, LeaveTheStateOfOneProcess) {
  for (int seed = 500; seed < 560; ++seed) {
    const auto outcome = testing_support::run_program(
        "elastic", {"--network", GetParam(), "--seed", std::to_string(seed)}, 300);
    ASSERT_EQ(outcome.exit_code, 0) << "seed " << seed << "\n" << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlowElasticKills, testing::Values("default", "tcp", "mixed"));

INSTANTIATE_TEST_SUITE_P(All, SlowFaultTolerantKills,
                         testing::Combine(testing::Values("random", "late", "one_saw", "commit",
                                                          "edit"),
                                          testing::Values("default", "tcp", "mixed")));

}  // namespace
}  // namespace tutti::kill_test
