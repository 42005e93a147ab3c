#include "src/select/select.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/registry/algorithms.h"
#include "src/select/tree_of.h"

namespace tutti::select {
namespace {

using schedule::Collective;

constexpr uint64_t kMiB = 1 << 20;

LinkModel host_link(int ranks, int cores) {
  return link_of(RankCosts{}, {.map = true}, {ranks, cores});
}
LinkModel network_link() { return link_of(RankCosts{}, {.stream = true}, {}); }

/// A query of a group with one kind of link.
struct Priced : Query {
  explicit Priced(const LinkModel& link) : kept(std::make_shared<LevelPrices>(link)) {
    prices = kept.get();
  }
  std::shared_ptr<LevelPrices> kept;
};

Priced query_of(Collective collective, int ranks, uint64_t bytes, const LinkModel& link) {
  Priced query(link);
  query.collective = collective;
  query.parameters.ranks = ranks;
  query.count = bytes;
  return query;
}

std::string winner(const Query& query) {
  const Result<Candidate> chosen = choose(registry::algorithms(), query);
  return std::string(chosen.ok() ? chosen.value().algorithm->name : chosen.status().message());
}

TEST(Select, PredictsWhatTheBusiestRankAndAllCoresNeed) {
  schedule::Cost cost;
  cost.depth = 3;
  cost.messages = 5;
  cost.bytes = {7, 1};
  cost.moved = {2, 1};
  cost.work = {12, 1};
  const LinkModel wire{.latency_ns = 10, .message_ns = 100, .wire_ns_per_byte = 0.5};
  EXPECT_DOUBLE_EQ(predict_ns(cost, wire, 1000), 3 * 10 + 5 * 100 + 7 * 500.0);
  const LinkModel roomy{.moved_ns_per_byte = 1, .work_ns_per_byte = 1.0 / 8};
  EXPECT_DOUBLE_EQ(predict_ns(cost, roomy, 1000), 2000);
  const LinkModel crowded{.moved_ns_per_byte = 1, .work_ns_per_byte = 1.0 / 2};
  EXPECT_DOUBLE_EQ(predict_ns(cost, crowded, 1000), 6000);
}

TEST(Select, CopiesLeastOnAHostAndLoadsNoWireTwice) {
  for (int ranks : {2, 4, 8, 64}) {
    for (uint64_t bytes : {uint64_t{8}, kMiB, 64 * kMiB}) {
      EXPECT_EQ(winner(query_of(Collective::kBroadcast, ranks, bytes, host_link(ranks, 2))),
                "publish_once")
          << ranks << " ranks, " << bytes << " bytes";
    }
  }
  const Priced remote = query_of(Collective::kBroadcast, 8, 64 * kMiB, network_link());
  EXPECT_NE(winner(remote), "publish_once");
}

TEST(Select, PrefersFewRoundsWhereCallsAreSmall) {
  EXPECT_EQ(winner(query_of(Collective::kAllReduce, 8, 8, host_link(8, 2))), "one_shot");
  EXPECT_EQ(winner(query_of(Collective::kAllReduce, 8, kMiB, host_link(8, 2))), "two_shot");
}

TEST(Select, ObeysAndSaysWhyTheOthersLost) {
  Priced query = query_of(Collective::kAllReduce, 4, kMiB, host_link(4, 2));
  query.forced = "ring:2";
  const auto ranked = rank_candidates(registry::algorithms(), query);
  ASSERT_FALSE(ranked.empty());
  EXPECT_EQ(ranked.front().algorithm->name, "ring");
  EXPECT_EQ(ranked.front().parameters.lanes, 2);
  EXPECT_EQ(ranked.back().rejected, "ring:2 is forced");

  query.forced = "spiral";
  query.forced_by = "NCCL_ALGO";
  const std::string none = winner(query);
  EXPECT_NE(none.find("no algorithm can run this all_reduce: spiral is forced by NCCL_ALGO; there "
                      "are "),
            std::string::npos)
      << none;
  EXPECT_NE(none.find("one_shot"), std::string::npos) << none;
  query.forced = "ring:99";
  EXPECT_EQ(winner(query),
            "no algorithm can run this all_reduce: ring:99 is forced by NCCL_ALGO, but it has at "
            "most 8 lanes");
}

TEST(Select, ADeterministicCallTakesTheCanonicalOrder) {
  Priced query = query_of(Collective::kAllReduce, 4, kMiB, host_link(4, 2));
  query.deterministic = true;
  for (const Candidate& candidate : rank_candidates(registry::algorithms(), query)) {
    if (candidate.algorithm->loads != nullptr) continue;  // for groups of several levels
    EXPECT_EQ(candidate.rejected.empty(), candidate.algorithm->canonical(candidate.parameters));
  }
  query.forced = "ring";
  query.parameters.ranks = 2;
  EXPECT_EQ(winner(query), "ring");  // two ranks have one order
  query.parameters.ranks = 3;
  const Result<Candidate> chosen = choose(registry::algorithms(), query);
  ASSERT_FALSE(chosen.ok());
  EXPECT_NE(chosen.status().message().find("canonical order"), std::string::npos);
}

// ---- groups of several hosts -------------------------------------------------------------------

/// Why the composition over levels does not run among ranks on these hosts.
std::string why_not_hierarchical(const std::vector<int>& hosts, std::string_view forced = "") {
  const group::GroupPointer group = group::group_on_hosts(hosts);
  LevelPrices prices(group, 2);
  Query query;
  query.collective = Collective::kAllReduce;
  query.parameters = {.ranks = static_cast<int>(hosts.size()), .tree = tree_of(*group)};
  query.count = kMiB;
  query.forced = forced;
  query.prices = &prices;
  for (const Candidate& candidate : rank_candidates(registry::algorithms(), query)) {
    if (candidate.algorithm->name == "hierarchical") return candidate.rejected;
  }
  return "there is none";
}

TEST(Select, WhatIsComposedOverLevelsIsForGroupsThatHaveSome) {
  EXPECT_EQ(why_not_hierarchical({0, 0, 1, 1}), "");
  EXPECT_EQ(why_not_hierarchical({0, 0, 0, 0}), "the group has one level");
  EXPECT_EQ(why_not_hierarchical({0, 0, 0, 0}, "hierarchical"), "");
}

// Of 16384 ranks on an even tree; an uneven one is looked at as a whole.
TEST(Select, WhatIsComposedOverLevelsIsForLargeGroupsOnEvenTrees) {
  const auto why_not = [](int ranks_of_first, int ranks, int hosts) {
    std::vector<int> places(static_cast<size_t>(ranks_of_first), 0);
    for (int host = 1; host < hosts; ++host) places.insert(places.end(), ranks, host);
    const auto group = group::group_on_hosts(places);
    LevelPrices prices(group, 8);
    Query query;
    query.parameters = {.ranks = static_cast<int>(places.size()), .tree = tree_of(*group)};
    query.count = 1024 * kMiB;
    query.prices = &prices;
    const auto* hierarchical = registry::find(Collective::kAllReduce, "hierarchical");
    const auto candidates = rank_candidates({hierarchical, 1}, query);
    EXPECT_TRUE(!candidates[0].rejected.empty() || candidates[0].predicted_ns > 0);
    return candidates[0].rejected;
  };
  EXPECT_EQ(why_not(16, 16, 1024), "");
  EXPECT_EQ(why_not(15, 16, 32), "");
  EXPECT_NE(why_not(15, 16, 64).find("more than 512 ranks"), std::string::npos);
}

TEST(LevelPrices, OfOneKindOfLinkAreByTheDeclaredCost) {
  LevelPrices prices(group::group_on_hosts({0, 0, 0, 0}), 2);
  const Candidate one{registry::find(Collective::kAllReduce, "ring"), {.ranks = 4}, 0, {}, false};
  const schedule::Cost cost = one.algorithm->cost(one.parameters);
  EXPECT_DOUBLE_EQ(prices.price(prices.usage_of(*one.algorithm, one.parameters), 1e6),
                   predict_ns(cost, host_link(4, 2), 1e6));
}

// Two hosts of four ranks: most messages of a ring stay on a host, so it is cheaper than if all
// crossed the network, and dearer than on one host.
TEST(LevelPrices, AddUpWhatEachLevelCosts) {
  LevelPrices prices(group::group_on_hosts({0, 0, 0, 0, 1, 1, 1, 1}), 4);
  const schedule::Algorithm& ring = *registry::find(Collective::kAllGather, "ring");
  const schedule::Parameters parameters{.ranks = 8};
  const schedule::Cost cost = ring.cost(parameters);
  const double price = prices.price(prices.usage_of(ring, parameters), 1e6);
  EXPECT_LT(price, predict_ns(cost, network_link(), 1e6) + predict_ns(cost, host_link(4, 4), 1e6));
  EXPECT_GT(price, predict_ns(cost, host_link(8, 4), 1e6));
  EXPECT_DOUBLE_EQ(price, prices.price(prices.usage_of(ring, parameters), 1e6))
      << "counted once, or twice";
}

// Whose neighbours in the ring are on the other host sends everything over the network.
TEST(LevelPrices, KnowWhichRanksAreNear) {
  LevelPrices blocks(group::group_on_hosts({0, 0, 1, 1}), 4);
  LevelPrices alternating(group::group_on_hosts({0, 1, 0, 1}), 4);
  const schedule::Algorithm& chain = *registry::find(Collective::kBroadcast, "chain");
  const schedule::Parameters parameters{.ranks = 4};
  EXPECT_LT(2 * blocks.price(blocks.usage_of(chain, parameters), 8),
            alternating.price(alternating.usage_of(chain, parameters), 8));
}

// ---- v-collectives ------------------------------------------------------------------------------

Priced exchange(bool vectors) {
  Priced query(network_link());
  query.collective = schedule::Collective::kAllToAll;
  query.parameters.ranks = 8;
  query.count = 100;
  query.element_bytes = 4;
  query.vectors = vectors;
  return query;
}

const Candidate& named(const std::vector<Candidate>& candidates, std::string_view name) {
  for (const Candidate& candidate : candidates) {
    if (candidate.algorithm->name == name) return candidate;
  }
  ADD_FAILURE() << "no " << name;
  return candidates.front();
}

TEST(SelectVectors, WhatForwardsPaysForItsSizeRound) {
  const auto plain = rank_candidates(registry::algorithms(), exchange(false));
  const auto vectors = rank_candidates(registry::algorithms(), exchange(true));
  EXPECT_EQ(named(vectors, "pairwise").predicted_ns, named(plain, "pairwise").predicted_ns);
  const Candidate& bruck = named(vectors, "bruck");
  const double round =
      predict_ns(bruck.algorithm->cost(bruck.parameters), network_link(), sizeof(uint64_t));
  EXPECT_GT(round, 0);
  EXPECT_DOUBLE_EQ(bruck.predicted_ns, named(plain, "bruck").predicted_ns + round);
}

TEST(SelectVectors, WhatNeedsEqualCountsRunsNone) {
  std::vector<schedule::Algorithm> algorithms;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    if (algorithm.collective != schedule::Collective::kAllToAll) continue;
    algorithms.push_back(algorithm);
    algorithms.back().needs_equal_counts = algorithm.name == "pairwise";
  }
  EXPECT_EQ(named(rank_candidates(algorithms, exchange(false)), "pairwise").rejected, "");
  const auto vectors = rank_candidates(algorithms, exchange(true));
  EXPECT_EQ(named(vectors, "pairwise").rejected, "it needs equal counts");
  EXPECT_EQ(vectors.front().algorithm->name, "bruck");
}

// A gather of 64 ranks stages more blocks than a frame of 4 KiB has lines.
TEST(Select, OfThoseThatOverflowTheFirstThatFitsIsTaken) {
  Priced query = query_of(Collective::kAllGather, 64, 64, host_link(64, 64));
  query.limits.slice_bytes = query.limits.frame_bytes = 64;
  const auto candidates = rank_candidates(registry::algorithms(), query);
  std::vector<std::string_view> names;
  for (const Candidate& one : candidates) {
    if (one.rejected.empty() && one.overflows) names.push_back(one.algorithm->name);
  }
  ASSERT_TRUE(candidates[0].overflows);
  ASSERT_GT(names.size(), 2u);
  EXPECT_EQ(winner(query), names[0]);
  std::vector<std::string_view> asked;
  query.fits = [&](const Candidate& one) {
    asked.push_back(one.algorithm->name);
    return one.algorithm->name == names[1];
  };
  EXPECT_EQ(winner(query), names[1]);
  EXPECT_EQ(asked, (std::vector<std::string_view>{names[0], names[1]}));
  query.fits = [](const Candidate&) { return false; };
  EXPECT_EQ(winner(query), names[0]);  // the caller knows whether it is staged at all
}

}  // namespace
}  // namespace tutti::select
