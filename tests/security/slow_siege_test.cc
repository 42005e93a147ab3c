#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti {
namespace {

TEST(SlowSiege, TenThousandConnectionsDisturbNobody) {
  const auto outcome = testing_support::run_program("siege", {"10000"}, 600);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::fputs(outcome.output.c_str(), stdout);
  if (outcome.output.find("SKIPPED") != std::string::npos) GTEST_SKIP() << outcome.output;
}

// The checks themselves: a door that keeps everybody breaks the bounds of connections and memory.
TEST(SlowSiege, ADoorWithoutABoundIsNoticed) {
  const auto outcome = testing_support::run_program("siege", {"8000", "open-door"}, 600);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  const std::string& told = outcome.output;
  EXPECT_NE(told.find("of 72: TOO MUCH"), std::string::npos) << told;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_NE(told.find("of 2048: TOO MUCH"), std::string::npos) << told;
#endif
}

}  // namespace
}  // namespace tutti
