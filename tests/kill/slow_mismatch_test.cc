// One rank in another call than the others: an error that names ranks, never a hang.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_handled(std::vector<std::string> arguments) {
  const auto outcome = testing_support::run_program("mismatch", arguments, 280);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Mismatch, Processes) { expect_handled({"--network", "default"}); }
TEST(Mismatch, Threads) { expect_handled({"--network", "default", "--threads", "1"}); }
TEST(Mismatch, Tcp) { expect_handled({"--network", "tcp"}); }
TEST(Mismatch, TwoHosts) { expect_handled({"--network", "mixed", "--ranks", "4"}); }
TEST(Mismatch, FiveProcesses) { expect_handled({"--network", "default", "--ranks", "5"}); }
TEST(Mismatch, SixOverTcp) { expect_handled({"--network", "tcp", "--ranks", "6"}); }
TEST(Mismatch, PatientProcesses) { expect_handled({"--patient", "1"}); }

// A rank that has failed must tell its peers even if it keeps the communicator.
TEST(Mismatch, PatientTcp) { expect_handled({"--network", "tcp", "--patient", "1"}); }

}  // namespace
}  // namespace tutti::kill_test
