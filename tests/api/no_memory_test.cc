// Memory that runs out in any call of the C API is an error of that call, with words.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::api_test {
namespace {

TEST(NoMemory, AnyAllocationMayFail) {
  const auto outcome = testing_support::run_program("no_memory", {}, 900);
  if (outcome.exit_code == 77) GTEST_SKIP() << "a sanitizer has functions of its own";
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace tutti::api_test
