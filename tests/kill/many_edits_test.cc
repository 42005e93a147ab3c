// One handle is edited over and over, and holds no more than before; the slow test does it a
// thousand times.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_nothing_left(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("many_edits", arguments, 200);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(ManyEdits, LeaveNothingBehindInProcesses) { expect_nothing_left({"--network", "mixed"}); }
TEST(ManyEdits, LeaveNothingBehindInThreads) { expect_nothing_left({"--threads", "1"}); }

}  // namespace
}  // namespace tutti::kill_test
