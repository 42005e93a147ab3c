#include <gtest/gtest.h>

#include "tests/fuzz/target.h"
#include "tests/support/subprocess.h"

namespace tutti::fuzz {
namespace {

TEST(SlowFuzz, EveryTargetHoldsForAMillionInputs) {
  for (const Target& target : targets()) {
    const auto outcome = testing_support::run_program(
        "fuzz", {"--target", std::string(target.name), "--runs", "1000000", "--seed", "2"}, 280);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

}  // namespace
}  // namespace tutti::fuzz
