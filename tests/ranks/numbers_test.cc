// Counts of 32 bits begin anew behind their last value, and nobody notices; slow_numbers_test.cc
// makes many calls of it.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::ranks_test {
namespace {

using testing_support::Member;

testing_support::Outcome numbers(const std::vector<std::string>& arguments) {
  return testing_support::run_program("numbers", arguments, 280);
}
void expect_right(const std::vector<std::string>& arguments) {
  const auto outcome = numbers(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(NumbersAlone, PassTheirEndAsProcesses) { expect_right({}); }
TEST(NumbersAlone, PassTheirEndAsThreads) { expect_right({"--threads", "1"}); }
TEST(NumbersAlone, PassTheirEndOverTcp) { expect_right({"--network", "tcp", "--calls", "600"}); }
TEST(NumbersAlone, PassTheirEndOverTwoHosts) {
  expect_right({"--network", "mixed", "--calls", "600"});
}

// Every algorithm and way to call, sends and windows, with a few calls to go.
TEST(NumbersAlone, PassTheirEndInRandomCalls) {
  const auto outcome = testing_support::run_program(
      "random_calls",
      {"--seed", "4", "--jobs", "5", "--calls", "25", "--no-large", "--calls-before", "4294967285"},
      280);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// The check itself.
TEST(NumbersAlone, ThatDoNotPassTheirEndAreNoticed) {
  for (const char* kind : {"collectives", "pairs", "windows"}) {
    const auto outcome = numbers({"--kind", kind, "--planted", "1"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("failed: not number "), std::string::npos) << outcome.output;
  }
}

TEST(NumbersAlone, ThatBeginElsewhereOnOneRankAreRefused) {
  auto shape = testing_support::TeamShape::processes(2);
  shape.set("TUTTI_CALLS_BEFORE", "4294967295");
  shape.environment[1]["TUTTI_CALLS_BEFORE"] = "5";
  const auto result = testing_support::run_team(
      shape,
      [](Member& member) {
        tuttiUniqueId id;
        tuttiComm_t comm = nullptr;
        if (!member.take_id(id)) return;
        const auto made = tuttiCommInitRank(&comm, member.ranks(), id, member.rank());
        const std::string message = tuttiGetLastError(nullptr);
        if (made == tuttiSuccess) return member.fail("it was made");
        if (message.find("TUTTI_CALLS_BEFORE=5") == std::string::npos) member.fail(message);
      },
      [](uint64_t) { return std::string("init"); }, 60'000'000'000);
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tutti::ranks_test
