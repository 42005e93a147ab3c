// Every reader over a hundred thousand mutated inputs; slow_fuzz_test.cc runs a million.
#include <gtest/gtest.h>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"
#include "tests/support/subprocess.h"

namespace tutti::fuzz {
namespace {

class Fuzz : public testing::TestWithParam<Target> {};

TEST_P(Fuzz, HoldsForAHundredThousandInputs) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "one thread: nothing for the thread sanitizer";
#endif
  const auto outcome = testing_support::run_program(
      "fuzz", {"--target", std::string(GetParam().name), "--runs", "100000"}, 800);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find(", 0 accepted;"), std::string::npos)
      << "the corpus is not valid: " << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Mutate, OneInputCanBeMadeAgainAlone) {
  const std::vector<std::string> corpus = {"one input", "another one"};
  int changed = 0;
  for (uint64_t number = 0; number < 1000; ++number) {
    const std::string input = mutate(corpus, 3, number, 20);
    EXPECT_EQ(input, mutate(corpus, 3, number, 20));
    EXPECT_LE(input.size(), 20u);
    changed += input != corpus[0] && input != corpus[1] ? 1 : 0;
  }
  EXPECT_GT(changed, 900);
}

TEST(Mutate, ADefectIsToldWithItsNumber) {
  const auto outcome =
      testing_support::run_program("fuzz", {"--target", "defective", "--runs", "100000"}, 300);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("--target defective --seed 1 --first "), std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace tutti::fuzz
