// A rank that ends its communicator long before the others takes nothing from them.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

class SlowEarlyLeaver : public ::testing::TestWithParam<const char*> {};

TEST_P(SlowEarlyLeaver, FailsNobody) {
  const auto outcome =
      testing_support::run_program("early_leaver", {"--network", GetParam(), "--ranks", "4"}, 240);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Networks, SlowEarlyLeaver, ::testing::Values("default", "tcp", "mixed"));

}  // namespace
}  // namespace tutti::api_test
