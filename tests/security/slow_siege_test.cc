#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti {
namespace {

TEST(SlowSiege, TenThousandConnectionsDisturbNobody) {
  const auto outcome = testing_support::run_program("siege", {"10000"}, 280);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::fputs(outcome.output.c_str(), stdout);
}

}  // namespace
}  // namespace tutti
