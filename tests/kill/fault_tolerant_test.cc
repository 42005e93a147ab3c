// The all_reduce that survives, while ranks are killed at named instants and at random ones. The
// slow test of the same name draws more.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/subprocess.h"

namespace tutti::kill_test {
namespace {

void expect_survival(const std::string& scenario, const std::string& network, int seed,
                     int ranks = 4, int shards = 1) {
  const auto outcome = testing_support::run_program(
      "fault_tolerant",
      {"--scenario", scenario, "--network", network, "--seed", std::to_string(seed), "--ranks",
       std::to_string(ranks), "--shards", std::to_string(shards)},
      300);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(FaultTolerantKills, AtARandomInstant) { expect_survival("random", "default", 1); }
TEST(FaultTolerantKills, AtARandomInstantOverBoth) { expect_survival("random", "mixed", 2); }
TEST(FaultTolerantKills, WhenNobodyElseHasSeenTheCommit) { expect_survival("late", "default", 3); }
TEST(FaultTolerantKills, WhenOneOtherHasSeenTheCommit) { expect_survival("one_saw", "tcp", 4); }
TEST(FaultTolerantKills, BeforeItsWordOfTheCommit) { expect_survival("commit", "default", 5); }
TEST(FaultTolerantKills, InTheEditForAnotherOne) { expect_survival("edit", "mixed", 6); }
TEST(FaultTolerantKills, OfOneRankOfAReplica) { expect_survival("random", "default", 7, 4, 2); }
TEST(FaultTolerantKills, OfOneRankOfTwoReplicasOfThree) {
  expect_survival("edit", "default", 8, 6, 2);
}

void expect_state(const std::string& network, int seed) {
  const auto outcome = testing_support::run_program(
      "elastic", {"--network", network, "--seed", std::to_string(seed)}, 300);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(ElasticKills, LeaveTheStateOfOneProcess) { expect_state("default", 1); }
TEST(ElasticKills, LeaveTheStateOfOneProcessOverBoth) { expect_state("mixed", 2); }

}  // namespace
}  // namespace tutti::kill_test
