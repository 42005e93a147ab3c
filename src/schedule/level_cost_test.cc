#include "src/schedule/level_cost.h"

#include <gtest/gtest.h>

#include "src/registry/algorithms.h"

namespace tutti::schedule {
namespace {

double value(Fraction fraction) {
  return static_cast<double>(fraction.num) / static_cast<double>(fraction.den);
}

LevelMap one_host() {
  return {1, [](int, int) { return size_t{0}; }, [](int) { return 0u; }};
}

// `ranks` of each host follow each other.
LevelMap hosts_of(int ranks) {
  return {2, [ranks](int a, int b) { return a / ranks == b / ranks ? size_t{0} : size_t{1}; },
          [ranks](int rank) { return static_cast<uint32_t>(rank / ranks); }};
}

// On one level it is what the authors declare, and what the verifier proves.
TEST(LevelCost, OnOneLevelIsTheDeclaredCost) {
  for (const Algorithm& algorithm : registry::algorithms()) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const Parameters parameters{.ranks = ranks};
      const auto counted = count_by_level(algorithm, parameters, one_host());
      ASSERT_TRUE(counted.ok()) << counted.status().message();
      const LevelCost& cost = counted.value()[0];
      const Cost declared = algorithm.cost(parameters);
      const std::string which = std::string(name_of(algorithm.collective)) + "/" +
                                std::string(algorithm.name) + " " + std::to_string(ranks);
      EXPECT_EQ(cost.depth, declared.depth) << which;
      EXPECT_EQ(cost.messages, declared.messages) << which;
      EXPECT_NEAR(cost.bytes, value(declared.bytes), 1e-6) << which;
      EXPECT_NEAR(cost.moved, value(declared.moved), 1e-6) << which;
      EXPECT_NEAR(cost.work, value(declared.work), 1e-6) << which;
    }
  }
}

// Of a ring over two hosts of four ranks, one message of each host's crosses the network a step.
TEST(LevelCost, OfARingMostMessagesStayOnTheHost) {
  const Algorithm* ring = registry::find(Collective::kAllGather, "ring");
  ASSERT_NE(ring, nullptr);
  const auto counted = count_by_level(*ring, {.ranks = 8}, hosts_of(4));
  ASSERT_TRUE(counted.ok());
  const LevelCost& host = counted.value()[0];
  const LevelCost& network = counted.value()[1];
  EXPECT_EQ(network.messages, 7u);  // of the last rank of a host
  EXPECT_NEAR(network.bytes, 7.0, 1e-6);
  EXPECT_EQ(host.messages, 7u);
  EXPECT_EQ(network.depth, 2u);  // a block comes round: it crosses at most twice
  EXPECT_LT(host.depth, 7u);
  EXPECT_NEAR(network.work, 14.0, 1e-6);  // one rank of the host sends seven, another receives
}

// A rank of a chain waits between no two of its steps; one of a ring waits for all of the others.
TEST(LevelCost, AChainIsLongAndARankOfItIsShort) {
  const Algorithm* chain = registry::find(Collective::kBroadcast, "chain");
  const LevelCost passed_on = count_by_level(*chain, {.ranks = 8}, one_host()).value()[0];
  EXPECT_EQ(passed_on.depth, 7u);
  EXPECT_EQ(passed_on.span, 0u);
  EXPECT_NEAR(passed_on.bytes, 1, 1e-6);
  EXPECT_NEAR(passed_on.path, 7, 1e-6);
  const Algorithm* ring = registry::find(Collective::kAllGather, "ring");
  const LevelCost around = count_by_level(*ring, {.ranks = 8}, one_host()).value()[0];
  EXPECT_EQ(around.span, around.depth);
  EXPECT_NEAR(around.path, around.bytes, 1e-6);
}

TEST(LevelCost, WhatCrossesNothingCostsNothingThere) {
  const Algorithm* direct = registry::find(Collective::kAllGather, "direct");
  ASSERT_NE(direct, nullptr);
  const auto counted = count_by_level(*direct, {.ranks = 4}, hosts_of(4));
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted.value()[1].messages, 0u);
  EXPECT_EQ(counted.value()[1].depth, 0u);
  EXPECT_GT(counted.value()[0].messages, 0u);
}

TEST(LevelCost, AScheduleThatWaitsForNothingIsAnError) {
  Algorithm broken = *registry::find(Collective::kBroadcast, "chain");
  broken.schedule = [](const Parameters& p, int rank) {
    Schedule schedule = registry::find(Collective::kBroadcast, "chain")->schedule(p, rank);
    if (rank == 0) schedule.steps.clear();
    return schedule;
  };
  EXPECT_FALSE(count_by_level(broken, {.ranks = 3}, one_host()).ok());
}

}  // namespace
}  // namespace tutti::schedule
