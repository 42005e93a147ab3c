#include <gtest/gtest.h>

#include "tests/fuzz/target.h"
#include "tests/support/subprocess.h"

namespace tutti::fuzz {
namespace {

class SlowFuzz : public testing::TestWithParam<Target> {};

TEST_P(SlowFuzz, HoldsForAMillionInputs) {
  const auto outcome = testing_support::run_program(
      "fuzz", {"--target", std::string(GetParam().name), "--runs", "1000000", "--seed", "2"}, 600);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Targets, SlowFuzz, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::fuzz
