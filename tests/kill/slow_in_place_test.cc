// Edits in place under faults drawn from seeds: 20 of each scenario on each network
// (tests/kill/in_place_main.cc takes any others).
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

class SlowEditsInPlace : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SlowEditsInPlace, KeepWhatIsRightUnderTwentySeeds) {
  const auto [scenario, network] = GetParam();
  constexpr int kFirst = 1000, kRuns = 20;
  for (int seed = kFirst; seed < kFirst + kRuns; ++seed) {
    const auto outcome = testing_support::run_program(
        "in_place", {"--scenario", scenario, "--network", network, "--seed", std::to_string(seed)},
        200);
    ASSERT_EQ(outcome.exit_code, 0) << "seed " << seed << "\n" << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlowEditsInPlace,
                         testing::Combine(testing::Values("kill", "twice", "late", "stop",
                                                          "replace", "join"),
                                          testing::Values("default", "tcp", "mixed")));

}  // namespace
}  // namespace tutti::kill_test
