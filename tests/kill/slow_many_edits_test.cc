// A thousand edits of one handle on each network: after the first hundred nothing more is held.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

class SlowManyEdits : public testing::TestWithParam<const char*> {};

TEST_P(SlowManyEdits, LeaveNothingBehind) {
  const auto outcome =
      testing_support::run_program("many_edits", {"--network", GetParam(), "--edits", "1000"}, 800);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(All, SlowManyEdits, testing::Values("default", "tcp", "mixed"));

}  // namespace
}  // namespace tutti::kill_test
