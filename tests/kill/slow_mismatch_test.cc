// One rank in another call than the others: an error that names it and another, never a hang.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::kill_test {
namespace {

constexpr int kLimitSeconds = 1700;

// With so many ranks; with TEST_THOROUGH=1 with 2 to 6, and each of them as the odd one.
void expect_handled(std::vector<std::string> arguments, const char* ranks) {
  if (testing_support::thorough()) {
    arguments.insert(arguments.end(), {"--every", "1"});
  } else {
    arguments.insert(arguments.end(), {"--ranks", ranks});
  }
  const auto outcome = testing_support::run_program("mismatch", arguments, kLimitSeconds);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::fputs(outcome.output.c_str(), stdout);
}

TEST(Mismatch, Processes) { expect_handled({"--network", "default"}, "5"); }
TEST(Mismatch, Threads) { expect_handled({"--network", "default", "--threads", "1"}, "4"); }
TEST(MismatchOverStreams, Tcp) { expect_handled({"--network", "tcp"}, "3"); }
TEST(MismatchOverStreams, TwoHosts) { expect_handled({"--network", "mixed"}, "5"); }

// A rank that has failed must tell its peers even if it keeps the communicator.
TEST(MismatchOverStreams, PatientTwoHosts) {
  expect_handled({"--network", "mixed", "--patient", "1"}, "4");
}
TEST(MismatchOverStreams, PatientTcp) {
  expect_handled({"--network", "tcp", "--patient", "1"}, "4");
}

// Of the numbers that ranks compare, some are behind their end and some before it.
TEST(MismatchOverStreams, AtTheEndOf32Bits) {
  expect_handled({"--network", "mixed", "--calls-before", "4294967294"}, "3");
}

TEST(Mismatch, PatientProcesses) {
  if (!testing_support::thorough()) GTEST_SKIP() << "longer; TEST_THOROUGH=1 runs it";
  expect_handled({"--patient", "1"}, "5");
}

// The check itself: where nobody differs, nothing can be told.
TEST(Mismatch, WhatNobodyNoticesIsNoticed) {
  const auto outcome =
      testing_support::run_program("mismatch", {"--ranks", "2", "--planted", "1"}, kLimitSeconds);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("failed: nobody noticed"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace tutti::kill_test
