#include "src/select/shared_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "src/registry/algorithms.h"
#include "src/select/select.h"

namespace tutti::select {
namespace {

using schedule::Collective;

constexpr double kMb = 1e6;

/// Slices of 10 MB in two streams, as devices have.
Slicing in_two_streams() {
  return {.frame_bytes = 10 * kMb,
          .overlaps = true,
          .most_short_slices = 16,
          .spanning_frame_bytes = 20 * kMb};
}

/// The choice among all_reduces of devices, where two_shot alone can have shared places.
struct Choice {
  explicit Choice(const DeviceCosts& costs, bool must = false, Slicing slicing = {})
      : prices(link_of(costs, DeviceWay::kDirect)), by_switch(switch_link_of(costs)) {
    prices.set_slicing(slicing);
    by_switch.set_slicing(slicing);
    sharing.can = [](const schedule::Algorithm& one) { return one.name == "two_shot"; };
    sharing.prices = &by_switch;
    sharing.must = must;
  }
  Choice(const Choice&) = delete;

  Candidate of(int ranks, double bytes, bool may = true) {
    Query query;
    query.collective = Collective::kAllReduce;
    query.parameters.ranks = ranks;
    query.count = static_cast<uint64_t>(bytes);
    query.prices = &prices;
    if (may) query.sharing = &sharing;
    const Result<Candidate> chosen = choose(registry::algorithms(), query);
    EXPECT_TRUE(chosen.ok()) << chosen.status().message();
    return chosen.ok() ? chosen.value() : Candidate();
  }

  LevelPrices prices, by_switch;
  Sharing sharing;
};

TEST(SharedUse, IsWhatTheSwitchCarriesAndTwoCopies) {
  LevelPrices prices(link_of(DeviceCosts(), DeviceWay::kDirect));
  const auto* two_shot = registry::find(Collective::kAllReduce, "two_shot");
  const Usage& apart = prices.usage_of(*two_shot, {.ranks = 8});
  const Usage shared = shared_use(apart, 8);
  EXPECT_DOUBLE_EQ(shared.levels[0].cost.bytes, 9.0 / 8);
  EXPECT_DOUBLE_EQ(shared.levels[0].cost.moved, 9.0 / 8 + 2);
  EXPECT_EQ(shared.levels[0].cost.depth, apart.levels[0].cost.depth);
  EXPECT_EQ(shared.levels[0].cost.messages, apart.levels[0].cost.messages);
}

TEST(DirectUse, CopiesNothingAndWaitsOnceMore) {
  LevelPrices prices(link_of(DeviceCosts(), DeviceWay::kDirect));
  const auto* two_shot = registry::find(Collective::kAllReduce, "two_shot");
  const Usage& staged = prices.usage_of(*two_shot, {.ranks = 8});
  const Usage direct = direct_use(staged, 8);
  EXPECT_DOUBLE_EQ(direct.levels[0].cost.bytes, 2 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(direct.levels[0].cost.moved, direct.levels[0].cost.bytes);
  EXPECT_EQ(direct.levels[0].cost.depth, staged.levels[0].cost.depth + 1);
  EXPECT_EQ(direct.levels[0].cost.messages, staged.levels[0].cost.messages + 7);
  EXPECT_GT(prices.price(direct, 1000), prices.price(staged, 1000));
  EXPECT_LT(prices.price(direct, 1000 * kMb), prices.price(staged, 1000 * kMb));
}

// By an H100's numbers: from five ranks on links carry less, and short calls copy too much.
TEST(SharedUse, IsTakenWhereItIsPredictedToBeLess) {
  Choice choice(DeviceCosts(), false, in_two_streams());
  for (const int ranks : {2, 3, 4}) EXPECT_FALSE(choice.of(ranks, 1000 * kMb).shares) << ranks;
  for (const int ranks : {5, 6, 8, 16}) EXPECT_TRUE(choice.of(ranks, 1000 * kMb).shares) << ranks;
  EXPECT_FALSE(choice.of(8, 1000).shares);
  const Candidate shared = choice.of(8, 1000 * kMb), apart = choice.of(8, 1000 * kMb, false);
  EXPECT_FALSE(apart.shares);
  EXPECT_EQ(apart.other_ns, 0);
  EXPECT_LT(shared.predicted_ns, 0.85 * apart.predicted_ns);
  EXPECT_DOUBLE_EQ(shared.other_ns, apart.predicted_ns);
}

TEST(SharedUse, FollowsTheModel) {
  DeviceCosts dear, cheap;
  dear.multicast_us_per_mb = 10;
  cheap.multicast_us_per_mb = 0.1;
  cheap.local_us_per_mb = 0.01;
  EXPECT_FALSE(Choice(dear).of(8, 1000 * kMb).shares);
  EXPECT_TRUE(Choice(cheap).of(3, 1000 * kMb).shares);
}

// Also before what is predicted to take less.
TEST(SharedUse, IsTakenWhereItMustBe) {
  Choice wherever(DeviceCosts(), true);
  for (const double bytes : {1000.0, 1000 * kMb}) {
    for (const int ranks : {2, 4, 8}) {
      const Candidate chosen = wherever.of(ranks, bytes);
      EXPECT_TRUE(chosen.shares) << ranks << " ranks, " << bytes;
      EXPECT_EQ(chosen.algorithm->name, "two_shot");
    }
  }
  EXPECT_FALSE(wherever.of(8, 1000, false).shares);
}

// The links of a long call are busy all the time, while a short one does one thing after the other.
TEST(LevelPrices, StreamsOfDevicesCopyBesideWhatCrosses) {
  const DeviceCosts costs;
  LevelPrices prices(link_of(costs, DeviceWay::kDirect)), serial(prices);
  prices.set_slicing(in_two_streams());
  const auto* two_shot = registry::find(Collective::kAllReduce, "two_shot");
  const auto& usage = prices.usage_of(*two_shot, {.ranks = 8});
  EXPECT_DOUBLE_EQ(prices.price(usage, 10 * kMb), serial.price(usage, 10 * kMb));
  const double links = 2 * 7.0 / 8 * 1000 * costs.link_us_per_mb * 1e3;
  EXPECT_GT(prices.price(usage, 1000 * kMb), links);
  EXPECT_LT(prices.price(usage, 1000 * kMb), 1.08 * links);
  EXPECT_GT(serial.price(usage, 1000 * kMb), 1.15 * links);
}

// Slices cost hand-overs, so fewer, longer ones cost less.
TEST(LevelPrices, LongerFramesOfDevicesAreFewerHandOvers) {
  DeviceCosts slow;
  slow.hand_over_us = 500;
  LevelPrices prices(link_of(slow, DeviceWay::kDirect)), shorter(prices);
  prices.set_slicing(in_two_streams());
  Slicing one_length = in_two_streams();
  one_length.most_short_slices = 1e300;
  shorter.set_slicing(one_length);
  const auto* two_shot = registry::find(Collective::kAllReduce, "two_shot");
  const auto& usage = prices.usage_of(*two_shot, {.ranks = 8});
  EXPECT_DOUBLE_EQ(prices.price(usage, 150 * kMb), shorter.price(usage, 150 * kMb));
  EXPECT_LT(prices.price(usage, 1000 * kMb), 0.7 * shorter.price(usage, 1000 * kMb));
}

}  // namespace
}  // namespace tutti::select
