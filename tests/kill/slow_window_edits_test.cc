// Edits in place of processes with open windows and registered memory, under faults drawn from
// seeds.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

class SlowWindowEdits : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SlowWindowEdits, KeepWhatIsRightUnderThirtySeeds) {
  const auto [scenario, network] = GetParam();
  constexpr int kFirst = 100, kRuns = 30;
  for (int seed = kFirst; seed < kFirst + kRuns; ++seed) {
    const auto outcome = testing_support::run_program(
        "window_edits",
        {"--scenario", scenario, "--network", network, "--seed", std::to_string(seed)}, 200);
    ASSERT_EQ(outcome.exit_code, 0) << "seed " << seed << "\n" << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlowWindowEdits,
                         testing::Combine(testing::Values("kill", "stop", "replace"),
                                          testing::Values("default", "tcp", "mixed")));

}  // namespace
}  // namespace tutti::kill_test
