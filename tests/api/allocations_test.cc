// A repeated small call allocates nothing, in the caller's thread or the engine's.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

void expect_none(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("allocations", arguments, 600);
  if (outcome.exit_code == 77) GTEST_SKIP() << "a sanitizer allocates in its own way";
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  // Eight kinds of calls were counted, not fewer.
  size_t lines = 0;
  for (size_t at = 0; (at = outcome.output.find("allocations a call", at)) != std::string::npos;
       ++at) {
    ++lines;
  }
  EXPECT_EQ(lines, 8u) << outcome.output;
}

TEST(Allocations, Threads) { expect_none({"--threads", "1"}); }
TEST(Allocations, Processes) { expect_none({"--network", "default"}); }
TEST(Allocations, Tcp) { expect_none({"--network", "tcp"}); }

}  // namespace
}  // namespace tutti::api_test
