// One rank in another call than the others: an error that names ranks, never a hang.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::kill_test {
namespace {

void expect_handled(std::vector<std::string> arguments) {
  const auto outcome = testing_support::run_program("mismatch", arguments, 280);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

constexpr const char* kSkipped = "minutes of waiting; TUTTI_TEST_THOROUGH=1 runs it";

TEST(Mismatch, Processes) { expect_handled({"--network", "default"}); }
TEST(Mismatch, ThreeThreads) { expect_handled({"--threads", "1", "--ranks", "3"}); }
TEST(Mismatch, Tcp) { expect_handled({"--network", "tcp"}); }
TEST(Mismatch, TwoHosts) { expect_handled({"--network", "mixed", "--ranks", "4"}); }
TEST(Mismatch, SixOverTcp) { expect_handled({"--network", "tcp", "--ranks", "6"}); }

TEST(Mismatch, Threads) {
  if (!testing_support::thorough()) GTEST_SKIP() << kSkipped;
  expect_handled({"--network", "default", "--threads", "1"});
}

TEST(Mismatch, FiveProcesses) {
  if (!testing_support::thorough()) GTEST_SKIP() << kSkipped;
  expect_handled({"--network", "default", "--ranks", "5"});
}

TEST(Mismatch, PatientProcesses) {
  if (!testing_support::thorough()) GTEST_SKIP() << kSkipped;
  expect_handled({"--patient", "1"});
}

// A rank that has failed must tell its peers even if it keeps the communicator.
TEST(Mismatch, PatientTcp) { expect_handled({"--network", "tcp", "--patient", "1"}); }

}  // namespace
}  // namespace tutti::kill_test
