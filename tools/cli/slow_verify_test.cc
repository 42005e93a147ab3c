// The whole of `tutti verify`: every registered algorithm at 1 to 64 ranks and samples beyond, and
// generated mutants of each.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "src/registry/algorithms.h"
#include "tools/cli/verify.h"

namespace tutti::cli {
namespace {

std::string verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "verify");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  const int status = verify_main(static_cast<int>(arguments.size()), argv.data());
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0) << output;
  return output;
}

/// The number before the words.
long number_of(const char* what, const std::string& output) {
  std::smatch found;
  const bool says = std::regex_search(output, found, std::regex("([0-9]+)" + std::string(what)));
  EXPECT_TRUE(says) << output;
  return says ? std::stol(found[1]) : -1;
}

TEST(SlowVerifyAlone, EveryRegisteredSchedule) {
  EXPECT_GT(number_of(" cases in [0-9.]+ s: proved", verify({})), 10'000);
}

TEST(SlowVerifyAlone, EveryMutantIsRefusedOrEquivalent) {
  const std::string output = verify({"--mutants"});
  EXPECT_GT(number_of(" mutants with separate buffers", output), 10'000) << output;
  EXPECT_GT(number_of(" mutants in place", output), 10'000) << output;
  EXPECT_EQ(output.find("SURVIVED"), std::string::npos) << output;
}

TEST(SlowVerifyAlone, EveryLowering) {
  const std::string output = verify({"--plans"});
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    const std::string name =
        std::string(schedule::name_of(algorithm.collective)) + "/" + std::string(algorithm.name);
    EXPECT_GT(number_of("[ ]+[0-9]+[ ]+0 ", output.substr(output.find(name))), 0) << name;
  }
}

}  // namespace
}  // namespace tutti::cli
