#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti {
namespace {

TEST(Siege, FiveHundredConnectionsDisturbNobody) {
  const auto outcome = testing_support::run_program("siege", {"500"}, 600);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  if (outcome.output.find("SKIPPED") != std::string::npos) GTEST_SKIP() << outcome.output;
}

}  // namespace
}  // namespace tutti
