#include <gtest/gtest.h>

#include "tests/fuzz/target.h"
#include "tests/support/subprocess.h"
#include "tests/support/thorough.h"

namespace tutti::fuzz {
namespace {

// A million each with TUTTI_TEST_THOROUGH=1.
TEST(SlowFuzz, EveryTargetHoldsForManyInputs) {
  const std::string runs = testing_support::thorough() ? "1000000" : "200000";
  for (const Target& target : targets()) {
    const auto outcome = testing_support::run_program(
        "fuzz", {"--target", std::string(target.name), "--runs", runs, "--seed", "2"}, 280);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

}  // namespace
}  // namespace tutti::fuzz
