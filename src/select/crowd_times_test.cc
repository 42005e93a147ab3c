#include "src/select/crowd_times.h"

#include <gtest/gtest.h>

#include <string_view>

#include "src/group/members.h"
#include "src/registry/algorithms.h"
#include "src/select/level_prices.h"

namespace tutti::select {
namespace {

using schedule::Collective;

/// Two ranks with a core each: half of a buffer goes out, half comes in.
const CrowdTimes kPair{2, 2, 100, 50, {{1000, 1100, 450}, {16000, 32100, 8200}}};

TEST(CrowdTimes, RatesAreOfWhatTheBusiestRankCopiesLessTheSteps) {
  const std::vector<CopyRate> rates = rates_of(kPair);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_DOUBLE_EQ(rates[0].moved, 1000);
  EXPECT_DOUBLE_EQ(rates[0].staged_ns_per_byte, 1);    // 1000 ns for 1000 bytes, out and in
  EXPECT_DOUBLE_EQ(rates[0].single_ns_per_byte, 0.5);  // 250 ns for the 500 that come in
  EXPECT_DOUBLE_EQ(rates[1].staged_ns_per_byte, 2);
  EXPECT_DOUBLE_EQ(rates[1].single_ns_per_byte, 1);
}

TEST(CrowdTimes, RatesLieBetweenTheirNeighboursAndGoOnBeyondThem) {
  const std::vector<CopyRate> rates = rates_of(kPair);
  EXPECT_DOUBLE_EQ(rate_at(rates, 1).staged_ns_per_byte, 1);
  EXPECT_DOUBLE_EQ(rate_at(rates, 4000).staged_ns_per_byte,
                   1.5);  // half-way on a logarithmic scale
  EXPECT_DOUBLE_EQ(rate_at(rates, 4000).single_ns_per_byte, 0.75);
  EXPECT_DOUBLE_EQ(rate_at(rates, 1e9).staged_ns_per_byte, 2);
  std::vector<CopyRate> unknown = rates;
  unknown[1].single_ns_per_byte = 0;
  EXPECT_EQ(rate_at(unknown, 4000).single_ns_per_byte, 0);
}

TEST(CrowdTimes, RanksThatShareCoresTakeWhatAllOfThemCopy) {
  const std::vector<CopiedBytes> ranks = {{3, 0}, {0, 1}, {0, 1}, {0, 1}};
  EXPECT_DOUBLE_EQ(load_of(ranks, 4).staged, 3);
  EXPECT_DOUBLE_EQ(load_of(ranks, 4).single, 1);
  EXPECT_DOUBLE_EQ(load_of(ranks, 1).staged, 6);
  EXPECT_DOUBLE_EQ(load_of(ranks, 1).single, 3);
}

TEST(CrowdTimes, WhatIsHardlyFasterStaysStaged) {
  EXPECT_FALSE((CopyChoice{100, 91}).takes_single());
  EXPECT_TRUE((CopyChoice{100, 89}).takes_single());
}

/// The ways of a call of two ranks on two cores whose crowd has measured `times`.
std::optional<CopyChoice> ways_of(Collective collective, std::string_view name,
                                  std::vector<CopyTimes> times, double bytes) {
  Model model;
  model.crowds = {{2, 2, 100, 50, std::move(times)}};
  LevelPrices prices(group::group_on_hosts({0, 0}), 2, model);
  const schedule::Parameters parameters{.ranks = 2, .tree = prices.tree()};
  return prices.copies_of(*registry::find(collective, name), parameters, bytes);
}

TEST(CrowdTimes, DecideHowACallCopies) {
  const std::vector<CopyTimes> reading = {{1 << 20, 100'000, 50'000}};
  const std::vector<CopyTimes> staging = {{1 << 20, 50'000, 100'000}};
  // A block of the other rank: what was measured itself.
  const auto read = ways_of(Collective::kAllToAll, "pairwise", reading, 512 << 10);
  ASSERT_TRUE(read.has_value());
  EXPECT_DOUBLE_EQ(read->staged_ns, 100'050);  // with the rank's own part of a step
  EXPECT_DOUBLE_EQ(read->single_ns, 50'100);
  EXPECT_TRUE(read->takes_single());
  EXPECT_FALSE(ways_of(Collective::kAllToAll, "pairwise", staging, 512 << 10)->takes_single());
  // The root of a broadcast copies in while the other rank copies out, which saves it nothing that
  // an all_to_all would not save twice.
  EXPECT_FALSE(
      ways_of(Collective::kBroadcast, "publish_once", {{1 << 20, 100'000, 95'000}}, 1 << 20)
          ->takes_single());
}

TEST(CrowdTimes, SayNothingOfWhatWasNotMeasured) {
  EXPECT_FALSE(ways_of(Collective::kAllToAll, "pairwise", {}, 1 << 20));
  EXPECT_FALSE(ways_of(Collective::kAllToAll, "pairwise", {{1 << 20, 100, 0}}, 1 << 20));
  Model model;
  model.crowds = {{4, 2, 100, 50, {{1 << 20, 100'000, 50'000}}}};  // of more ranks
  LevelPrices prices(group::group_on_hosts({0, 0}), 2, model);
  const schedule::Parameters parameters{.ranks = 2, .tree = prices.tree()};
  const auto* pairwise = registry::find(Collective::kAllToAll, "pairwise");
  EXPECT_FALSE(prices.copies_of(*pairwise, parameters, 1 << 20));
}

TEST(CrowdTimes, PriceCallsOfTheirCrowd) {
  Model model;
  model.crowds = {{2, 2, 100, 50, {{1 << 20, 52'529, 0}}}};
  LevelPrices prices(group::group_on_hosts({0, 0}), 2, model);
  const auto price = [&](Collective collective, std::string_view name, double bytes) {
    const schedule::Parameters parameters{.ranks = 2, .tree = prices.tree()};
    return prices.price(prices.usage_of(*registry::find(collective, name), parameters), bytes);
  };
  EXPECT_NEAR(price(Collective::kAllToAll, "pairwise", 512 << 10), 52'579, 1);
  // Beyond what was measured bytes come to cost what they do in memory.
  EXPECT_NEAR(price(Collective::kAllToAll, "pairwise", 32 << 20),
              150 + RankCosts().copy_ns_per_byte * (64 << 20), 1000);
  // A row of calls that nobody answers costs no step each.
  EXPECT_NEAR(price(Collective::kBroadcast, "publish_once", 0), 100, 1);
}

}  // namespace
}  // namespace tutti::select
