// A repeated small call allocates nothing, in the caller's thread or the engine's; a blocking one
// calls the system only to wait.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

void expect_none(const std::vector<std::string>& arguments) {
  const auto outcome = testing_support::run_program("allocations", arguments, 600);
  if (outcome.exit_code == 77) GTEST_SKIP() << "a sanitizer allocates in its own way";
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  // Eight kinds of calls were counted, not fewer, four of them blocking.
  EXPECT_EQ(count(outcome.output, "allocations a call"), 8u) << outcome.output;
  if (count(outcome.output, "system calls") == 0)
    GTEST_SKIP() << "no system calls are counted here";
  EXPECT_EQ(count(outcome.output, "system calls"), 4u) << outcome.output;
}

TEST(Allocations, Threads) { expect_none({"--threads", "1"}); }
TEST(Allocations, Processes) { expect_none({"--network", "default"}); }
TEST(Allocations, Tcp) { expect_none({"--network", "tcp"}); }

}  // namespace
}  // namespace tutti::api_test
