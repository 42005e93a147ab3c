// The whole of `tutti verify`: every registered algorithm at 1 to 64 ranks and samples beyond, and
// generated mutants of each.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/cli/verify.h"

namespace tutti::cli {
namespace {

void expect_proved(std::vector<std::string> arguments, const char* conclusion) {
  arguments.insert(arguments.begin(), "verify");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  const int status = verify_main(static_cast<int>(arguments.size()), argv.data());
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find(conclusion), std::string::npos) << output;
}

TEST(SlowVerify, EveryRegisteredSchedule) { expect_proved({}, ": proved"); }
TEST(SlowVerify, EveryMutantIsRefusedOrEquivalent) {
  expect_proved({"--mutants"}, " 0 survived");
}
TEST(SlowVerify, EveryLowering) { expect_proved({"--plans"}, ""); }

}  // namespace
}  // namespace tutti::cli
