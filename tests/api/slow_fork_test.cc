// A forked child leaves its parent's communicators alone. With the slow tests, because
// sanitizers cannot follow: one looks for leaks in a child that exits, one forbids it new threads.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

void expect_right(const std::string& network) {
  const auto outcome = testing_support::run_program("fork", {"--network", network}, 240);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(SlowFork, OneHost) { expect_right("default"); }
TEST(SlowFork, Tcp) { expect_right("tcp"); }

}  // namespace
}  // namespace tutti::api_test
