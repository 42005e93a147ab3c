#include "src/select/level_prices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/registry/algorithms.h"
#include "src/select/select.h"
#include "src/sim/cluster.h"
#include "src/topology/cluster_file.h"

namespace tutti::select {
namespace {

using schedule::Collective;

const std::string kTwoRanks = R"({"tutti_topology": 1, "levels": [{"name": "network",
    "latency_us": 10}, {"name": "host", "latency_us": 1}], "tree": {"children": [{"ranks": 2}]}})";

/// A group for every leaf of a cluster, with its rates.
group::GroupPointer group_of(const std::string& text) {
  const auto topology = topology::parse_cluster(text, "f.json");
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return sim::network_of(topology.value()).value().group();
}

std::string sites(const std::string& wan, const std::string& children) {
  return R"({"tutti_topology": 1, "levels": [{"name": "wan", )" + wan + R"(},
      {"name": "site", "latency_us": 7, "port_GB_per_s": 10}, {"name": "host", "latency_us": 1}],
      "tree": {"children": [)" +
         children + "]}}";
}

Query query_of(LevelPrices& prices, int ranks, uint64_t bytes) {
  Query query;
  query.collective = Collective::kAllReduce;
  query.parameters = {.ranks = ranks, .tree = prices.tree()};
  query.count = bytes / 4;
  query.element_bytes = 4;
  query.prices = &prices;
  query.limits = {.sources = 64};
  return query;
}

bool picks_levels(const std::string& cluster, uint64_t bytes) {
  const group::GroupPointer group = group_of(cluster);
  LevelPrices prices(group, 8);
  const auto chosen = choose(registry::algorithms(), query_of(prices, group->ranks(), bytes));
  EXPECT_TRUE(chosen.ok()) << chosen.status().message();
  return chosen.ok() && chosen.value().algorithm->loads != nullptr;
}

// A thin link of 20 ms between two sites of four hosts, against levels that tell nothing apart.
TEST(LevelPrices, LevelsAreCrossedOnceWhereOneOfThemIsSlow) {
  const std::string children = R"({"count": 2, "children": [{"count": 4, "ranks": 4}]})";
  const std::string slow = sites(R"("latency_us": 20000, "port_GB_per_s": 1)", children);
  EXPECT_TRUE(picks_levels(slow, 1 << 20));
  EXPECT_TRUE(picks_levels(slow, 64 << 20));
  const std::string equal = R"({"tutti_topology": 1, "levels": [
      {"name": "zone", "latency_us": 7}, {"name": "rack", "latency_us": 7},
      {"name": "host", "latency_us": 7}],
      "tree": {"children": [{"count": 2, "children": [{"count": 8}]}]}})";
  EXPECT_FALSE(picks_levels(equal, 64));
}

constexpr Slicing kSlicing{
    .frame_bytes = 512 << 10, .stream_bytes = 1 << 20, .memory_bytes = 64 << 20};
const std::string kSlowSites = sites(R"("latency_us": 20000, "port_GB_per_s": 5)",
                                     R"({"count": 2, "children": [{"count": 4, "ranks": 4}]})");

// Of devices: a word and a copy at either end of a message, and the bus both ways.
TEST(LevelPrices, MessagesOfDevicesPayForTheHostsMemoryBetweenHosts) {
  const std::string hosts = R"({"tutti_topology": 1, "levels": [
      {"name": "network", "latency_us": 10, "port_GB_per_s": 100},
      {"name": "host", "latency_us": 1}], "tree": {"children": [{"count": 2}]}})";
  const DeviceCosts costs;
  LevelPrices plain(group_of(hosts), 8), crossing(group_of(hosts), 8);
  crossing.cross_hosts(costs);
  const auto* ring = registry::find(Collective::kAllGather, "ring");
  const schedule::Parameters parameters{.ranks = 2, .tree = plain.tree()};
  const auto more_ns = [&](double bytes) {
    return crossing.price(crossing.usage_of(*ring, parameters), bytes) -
           plain.price(plain.usage_of(*ring, parameters), bytes);
  };
  const double messages_us = costs.write_us + costs.wait_us + 2 * costs.listed_copy_us;
  const double step_us = 2 * costs.copy_us + costs.write_us + costs.hand_over_us;
  EXPECT_NEAR(more_ns(0), (step_us + messages_us) * 1e3, 1);
  EXPECT_GT(more_ns(64 << 20), 2 * costs.bus_us_per_mb * 1e-3 * (64 << 20));
  const Slicing many{.stream_bytes = 1 << 20, .turns = 2, .lands = true};
  const double one = more_ns(64 << 20);
  plain.set_slicing(many);
  crossing.set_slicing(many);
  EXPECT_LT(more_ns(64 << 20), one);  // one slice is on the wire while another one crosses
}

// Nothing within a host crosses its memory.
TEST(LevelPrices, MessagesOfDevicesWithinAHostCostNoMore) {
  LevelPrices plain(group_of(kTwoRanks), 8), crossing(group_of(kTwoRanks), 8);
  crossing.cross_hosts({});
  const auto* ring = registry::find(Collective::kAllGather, "ring");
  const schedule::Parameters parameters{.ranks = 2, .tree = plain.tree()};
  EXPECT_EQ(crossing.price(crossing.usage_of(*ring, parameters), 1 << 20),
            plain.price(plain.usage_of(*ring, parameters), 1 << 20));
}

// In one lane both exchanges of the outermost level wait in each of 256 slices.
TEST(LevelPrices, EverySliceWaitsForASlowLinkAgain) {
  LevelPrices prices(group_of(kSlowSites), 8);
  const auto* levels = registry::find(Collective::kAllReduce, "hierarchical");
  schedule::Parameters parameters{.ranks = 32, .tree = prices.tree()};
  const double bytes = 64 << 20, whole = prices.price(prices.usage_of(*levels, parameters), bytes);
  prices.set_slicing(kSlicing);
  const Usage& one = prices.usage_of(*levels, parameters);
  const auto slices = static_cast<double>(prices.slices_of(one, bytes));
  EXPECT_GT(slices, 200);
  EXPECT_GT(prices.price(one, bytes), slices * 2 * 20e6);
  EXPECT_EQ(prices.price_of(one, bytes).far_slices, 0u);
  parameters.lanes = 3;
  const Price apart = prices.price_of(prices.usage_of(*levels, parameters), bytes);
  EXPECT_LT(apart.ns, 2 * whole);
  EXPECT_GE(apart.far_slices, 1u);
  EXPECT_LT(apart.far_slices, 16u);
  // One slice of all would keep too much beside the buffers.
  EXPECT_GT(prices.price_of(prices.usage_of(*levels, parameters), 64 * bytes).far_slices, 1u);
}

// No message is near, so that nothing is staged: one lane has slices as long as the delay asks for.
TEST(LevelPrices, WhereEveryRankHasAHostSlicesAreAsLongAsTheDelayAsksFor) {
  const auto pair_of = [](const std::string& wan) {
    LevelPrices prices(group_of(sites(wan, R"({"count": 2, "children": [{"count": 1}]})")), 8);
    prices.set_slicing(kSlicing);
    return prices;
  };
  const schedule::Algorithm& ring = *registry::find(Collective::kAllReduce, "ring");
  const schedule::Parameters parameters{.ranks = 2};
  const double bytes = 16 << 20;
  LevelPrices slow = pair_of(R"("latency_us": 20000, "port_GB_per_s": 5)");
  const Usage& usage = slow.usage_of(ring, parameters);
  EXPECT_GT(slow.slices_of(usage, bytes), 16u);
  const Price price = slow.price_of(usage, bytes);
  EXPECT_EQ(price.far_slices, 1u);
  EXPECT_LT(price.ns, 4 * 20e6);
  EXPECT_GE(slow.price_of(usage, 64 * bytes).far_slices, 16u);  // 64 MiB for each of them
  slow.set_slicing({.frame_bytes = 512 << 10, .stream_bytes = 1 << 20, .memory_bytes = 0});
  EXPECT_EQ(slow.price_of(usage, bytes).far_slices, 0u);
  // Where waiting is short beside the bytes, slices stay in the caches.
  LevelPrices quick = pair_of(R"("latency_us": 7, "port_GB_per_s": 1)");
  EXPECT_EQ(quick.price_of(quick.usage_of(ring, parameters), bytes).far_slices, 0u);
}

// Near messages are staged in short slices, and those over the slow link have a lane of their own.
TEST(LevelPrices, MessagesThatWaitForNoneHaveALaneForTheirLevel) {
  LevelPrices prices(group_of(kSlowSites), 8);
  prices.set_slicing(kSlicing);
  for (const Collective collective :
       {Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    Query query = query_of(prices, 32, 1 << 20);
    query.collective = collective;
    for (const bool vectors : {false, true}) {
      query.vectors = vectors && collective == Collective::kAllToAll;
      const Candidate chosen = choose(registry::algorithms(), query).value();
      EXPECT_GT(chosen.parameters.lanes, 1) << schedule::name_of(collective);
      EXPECT_GE(chosen.far_slices, 1u);
      EXPECT_LT(chosen.predicted_ns, 10 * 20e6);
    }
  }
}

// Those of devices: what is near has frames of a device, and every message lands in memory of the
// host, so that slices may be longer than a host's.
TEST(LevelPrices, SlicesOfWhichEveryMessageLandsAreAsLongAsTheirMemoryAllows) {
  LevelPrices prices(group_of(kSlowSites), 8);
  Slicing slicing{.frame_bytes = 13 << 20,
                  .stream_bytes = 64 << 10,
                  .memory_bytes = 0,
                  .turns = 2,
                  .lands = true};
  prices.set_slicing(slicing);
  const schedule::Parameters parameters{.ranks = 32, .tree = prices.tree()};
  const Usage& usage =
      prices.usage_of(*registry::find(Collective::kAllReduce, "hierarchical"), parameters);
  const double bytes = 64 << 20;
  const Price cut = prices.price_of(usage, bytes);
  EXPECT_EQ(cut.far_slices, 0u);
  slicing.memory_bytes = 32 << 20;
  prices.set_slicing(slicing);
  const Price price = prices.price_of(usage, bytes);
  EXPECT_GE(price.far_slices, 5u);  // so many frames
  EXPECT_LT(price.far_slices, prices.slices_of(usage, bytes));
  EXPECT_LT(price.ns, cut.ns / 2);
}

// A chain of ranks is in different slices: each waits for room, not for the end of the chain.
TEST(LevelPrices, SlicesOfMessagesThatFlowOneWayFollowEachOther) {
  LevelPrices prices(group_of(kSlowSites), 8);
  prices.set_slicing(kSlicing);
  const schedule::Parameters parameters{.ranks = 32, .tree = prices.tree()};
  const auto price = [&](Collective collective, const char* name) {
    const auto* algorithm = registry::find(collective, name);
    return prices.price(prices.usage_of(*algorithm, parameters), 64 << 20);
  };
  EXPECT_LT(4 * price(Collective::kBroadcast, "chain"), price(Collective::kAllReduce, "ring"));
}

TEST(LevelPrices, PhasesAreApartWhereThatPays) {
  LevelPrices prices(group_of(kSlowSites), 8);
  prices.set_slicing(kSlicing);
  const auto chosen = [&](uint64_t bytes, std::string_view forced) {
    Query query = query_of(prices, 32, bytes);
    query.forced = forced;
    return choose(registry::algorithms(), query).value();
  };
  EXPECT_EQ(chosen(1024, "hierarchical").parameters.lanes, 1);
  EXPECT_EQ(chosen(1024, "hierarchical").far_slices, 0u);
  const Candidate large = chosen(64 << 20, "hierarchical");
  EXPECT_GT(large.parameters.lanes, 1);
  EXPECT_GT(large.far_slices, 0u);
  EXPECT_EQ(chosen(64 << 20, "hierarchical:1").parameters.lanes, 1);  // who says how many gets them
  const Candidate best = chosen(64 << 20, "");
  EXPECT_NE(best.algorithm->loads, nullptr);
  EXPECT_GT(best.parameters.lanes, 1);
}

// Ranks of a chain pass on what they have received: the first slice is at one after the other.
TEST(LevelPrices, AChainFillsBeforeItsEndHasAnything) {
  LevelPrices prices(group_of(sites(R"("latency_us": 20, "port_GB_per_s": 10)",
                                    R"({"count": 2, "children": [{"count": 4, "ranks": 4}]})")),
                     8);
  prices.set_slicing(kSlicing);
  const schedule::Parameters parameters{.ranks = 32, .tree = prices.tree()};
  const Usage& chain =
      prices.usage_of(*registry::find(Collective::kBroadcast, "chain"), parameters);
  const double slice = 512 << 10, copied_twice_ns_per_byte = 2 * RankCosts{}.copy_ns_per_byte;
  EXPECT_GT(prices.price(chain, slice), 23 * slice * copied_twice_ns_per_byte);
  // Of many slices only the first one waits for that.
  EXPECT_LT(prices.price(chain, 64 * slice), 32 * prices.price(chain, slice));
}

// More ranks than are looked at, of which many share the uplink of a host.
TEST(LevelPrices, LevelsAreChosenInVeryLargeGroupsToo) {
  const std::string children = R"({"count": 2, "children": [{"count": 64, "ranks": 8}]})";
  EXPECT_TRUE(
      picks_levels(sites(R"("latency_us": 20000, "port_GB_per_s": 12)", children), 64 << 20));
}

// Of a cut that is known to be the narrowest, the load is exact.
TEST(LevelPrices, WhatLeavesANodeTakesItsUplink) {
  const std::string children = R"({"count": 2, "children": [{"count": 2, "ranks": 2}]})";
  LevelPrices prices(group_of(sites(R"("latency_us": 1000, "port_GB_per_s": 0.001)", children)), 4);
  const auto* ring = registry::find(Collective::kAllReduce, "ring");
  const auto* levels = registry::find(Collective::kAllReduce, "hierarchical");
  const schedule::Parameters parameters{.ranks = 8, .tree = prices.tree()};
  // A ring of eight sends 14 eighths of the count over each link that it takes; the two nodes of a
  // tree exchange halves, forth and back.
  EXPECT_NEAR(prices.usage_of(*ring, parameters).levels[2].links_ns_per_byte, 1.75e3, 1);
  EXPECT_NEAR(prices.usage_of(*levels, parameters).levels[2].links_ns_per_byte, 1e3, 1);
}

// Neighbours on two hosts may be at the two ends of a tree of ranks, which no sample of ranks
// tells.
TEST(LevelPrices, ShortSchedulesAreCountedInLargeGroupsToo) {
  std::vector<int> hosts(256, 0);
  hosts.resize(404, 1);
  const auto group = group::group_on_hosts(hosts);
  LevelPrices usual(group, 8), all(group, 8, {}, {1 << 20, 0}), sampled(group, 8, {}, {8, 0});
  const auto depth_of = [](LevelPrices& prices, std::string_view name) {
    const auto& algorithm = *registry::find(schedule::Collective::kAllReduce, name);
    return prices.usage_of(algorithm, {.ranks = 404}).levels.back().cost.depth;
  };
  for (const char* name : {"double_binary_tree", "folded_doubling", "recursive_doubling"}) {
    EXPECT_EQ(depth_of(usual, name), depth_of(all, name)) << name;
  }
  EXPECT_GT(depth_of(usual, "double_binary_tree"), 2 * depth_of(sampled, "double_binary_tree"));
}

// A sample of some ranks, beside all ranks: within a factor of three, of every
// algorithm. Of trees, in which few ranks pass on much, it says least.
TEST(LevelPrices, ASampleSaysAboutWhatAllRanksSay) {
  const std::string even = R"({"count": 3, "children": [{"count": 2, "ranks": 8}]})";
  const std::string uneven = R"({"children": [{"count": 3, "ranks": 8}]},
                                {"children": [{"count": 4, "ranks": 3}, {"ranks": 5}]})";
  for (const std::string& children : {even, uneven}) {
    const group::GroupPointer group =
        group_of(sites(R"("latency_us": 2000, "port_GB_per_s": 1)", children));
    LevelPrices all(group, 8, {}, {1 << 20, 0}), sampled(group, 8, {}, {8, 0});
    all.set_slicing(kSlicing);
    sampled.set_slicing(kSlicing);
    for (const schedule::Algorithm& algorithm : registry::algorithms()) {
      const schedule::Parameters parameters{.ranks = group->ranks(), .root = 5, .tree = all.tree()};
      for (const double bytes : {64.0, 65536.0, 67108864.0}) {
        const double exact = all.price(all.usage_of(algorithm, parameters), bytes);
        const double about = sampled.price(sampled.usage_of(algorithm, parameters), bytes);
        EXPECT_LT(std::abs(std::log(about / exact)), std::log(3))
            << schedule::name_of(algorithm.collective) << " " << algorithm.name << " of " << bytes
            << " by " << group->ranks() << ": " << about << ", exactly " << exact;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::select
