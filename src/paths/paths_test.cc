// The numbers of communication_systems: splitting for every r and s, hashing against planning, and
// what happens when a link dies.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "src/base/prng.h"
#include "src/paths/balancer.h"
#include "src/paths/colouring.h"
#include "src/paths/fabric.h"
#include "src/paths/home_paths.h"
#include "src/paths/plan.h"
#include "src/paths/split.h"

namespace tutti::paths {
namespace {

TEST(MinimalSplit, BalancesExactlyForEveryNumberOfFlowsAndLinks) {
  constexpr uint32_t kMost = 64;
  for (uint32_t flows = 1; flows <= kMost; ++flows) {
    for (uint32_t links = 1; links <= kMost; ++links) {
      const Split split = minimal_split(flows, links, 1 << 20).value();
      ASSERT_TRUE(split.exact);
      ASSERT_EQ(flows * split.pieces % links, 0u) << flows << " " << links;
      ASSERT_DOUBLE_EQ(split.most_load * links, flows);
      for (uint32_t fewer = 1; fewer < split.pieces; ++fewer) {
        ASSERT_NE(flows * fewer % links, 0u) << flows << " " << links;
      }
    }
  }
}

TEST(MinimalSplit, KeepsFlowsWholeWhereThePiecesWouldBeTooSmallOrTooMany) {
  const Split small = minimal_split(12, 8, 1000, {.least_piece = 600, .most_pieces = 100}).value();
  EXPECT_EQ(small.pieces, 1u);
  EXPECT_DOUBLE_EQ(small.most_load, 2);
  EXPECT_FALSE(small.exact);
  EXPECT_EQ(minimal_split(12, 8, 1000, {.least_piece = 1, .most_pieces = 23}).value().pieces, 1u);
  EXPECT_EQ(minimal_split(12, 8, 1000, {.least_piece = 1, .most_pieces = 24}).value().pieces, 2u);
  EXPECT_FALSE(minimal_split(0, 8, 1).ok());
  EXPECT_FALSE(minimal_split(8, 0, 1).ok());
}

TEST(ProportionalSplit, FillsLinksInProportionWithFewPieces) {
  const std::vector<double> flows = {5, 1, 9, 3}, links = {2, 0, 1, 3};
  const std::vector<LinkShare> shares = proportional_split(flows, links).value();
  EXPECT_LE(shares.size(), flows.size() + links.size() - 1);
  std::vector<double> on_link(links.size()), of_flow(flows.size());
  for (const LinkShare& share : shares) {
    on_link[share.uplink] += share.bytes;
    of_flow[share.flow] += share.bytes;
  }
  for (size_t i = 0; i < links.size(); ++i) EXPECT_NEAR(on_link[i], 18 * links[i] / 6, 1e-9);
  for (size_t i = 0; i < flows.size(); ++i) EXPECT_NEAR(of_flow[i], flows[i], 1e-9);
  EXPECT_FALSE(proportional_split(flows, {0, 0}).ok());
  EXPECT_FALSE(proportional_split({-1}, links).ok());
}

// One of eight up-links is lost: moved whole, its flow doubles another link; rebalanced, all
// carry 8/7.
TEST(ProportionalSplit, ALostLinkCostsItsOwnShareOnly) {
  const std::vector<double> flows(8, 7.0);
  std::vector<double> links(8, 1.0), load(8);
  links[3] = 0;
  const std::vector<LinkShare> shares = proportional_split(flows, links).value();
  for (const LinkShare& share : shares) load[share.uplink] += share.bytes;
  EXPECT_NEAR(*std::max_element(load.begin(), load.end()), 8, 1e-9);  // of 7: rate 7/8
  EXPECT_EQ(load[3], 0);
}

TEST(Hashing, TheFullestLinkIsExpectedAsTheGeneratingFunctionSays) {
  EXPECT_NEAR(expected_most_load(4, 4), 2.125, 5e-4);
  EXPECT_NEAR(expected_most_load(8, 8), 2.597, 5e-4);
  EXPECT_NEAR(expected_most_load(16, 16), 3.078, 5e-4);
  EXPECT_NEAR(expected_most_load(12, 8), 3.435, 5e-4);
}

TEST(Hashing, ManyPlacementsComeToTheExpectation) {
  const Fabric fabric = Fabric::uniform(2, 8, 1);
  const std::vector<Flow> flows(8, {0, 1, 1.0});
  constexpr uint64_t kTries = 20000;
  double sum = 0;
  for (uint64_t seed = 0; seed < kTries; ++seed) {
    sum += loads_of(fabric, flows, place_by_hash(fabric, flows, seed * 77).value()).value().most;
  }
  EXPECT_NEAR(sum / kTries, 2.597, 0.03);
  const auto planned = loads_of(fabric, flows, plan_paths(fabric, flows).value()).value();
  EXPECT_DOUBLE_EQ(planned.most, 1);
}

TEST(Plan, TwelveFlowsOnEightLinksWholeAndSplit) {
  const Fabric fabric = Fabric::uniform(2, 8, 1);
  const std::vector<Flow> flows(12, {0, 1, 1024.0});
  EXPECT_DOUBLE_EQ(loads_of(fabric, flows, plan_paths(fabric, flows).value()).value().most, 2048);
  PlanOptions split;
  split.split = true;
  const auto placed = plan_paths(fabric, flows, split).value();
  EXPECT_EQ(placed.size(), 24u);
  EXPECT_DOUBLE_EQ(loads_of(fabric, flows, placed).value().most, 1536);
}

TEST(Colouring, EveryNodeHasEachColourNearlyEquallyOften) {
  Prng random(7);
  for (int trial = 0; trial < 200; ++trial) {
    constexpr uint32_t kLeaves = 8;
    const uint32_t colours = trial % 2 == 0 ? 4 : 8;
    std::vector<FlowEdge> edges(random.below(200));
    for (FlowEdge& edge : edges) {
      edge = {static_cast<uint32_t>(random.below(kLeaves)),
              static_cast<uint32_t>(random.below(kLeaves))};
    }
    const auto colour = equitable_colours(edges, kLeaves, kLeaves, colours).value();
    for (uint32_t node = 0; node < 2 * kLeaves; ++node) {
      std::vector<uint32_t> seen(colours);
      uint32_t degree = 0;
      for (size_t i = 0; i < edges.size(); ++i) {
        const uint32_t end = node < kLeaves ? edges[i].left : edges[i].right + kLeaves;
        if (end != node) continue;
        ++degree;
        ++seen[colour[i]];
      }
      for (const uint32_t count : seen) {
        ASSERT_GE(count, degree / colours);
        ASSERT_LE(count, (degree + colours - 1) / colours);
      }
    }
  }
}

TEST(Colouring, RefusesNodesThatAreNotThere) {
  EXPECT_FALSE(equitable_colours({{2, 0}}, 2, 2, 4).ok());
  EXPECT_FALSE(equitable_colours({{0, 0}}, 2, 2, 0).ok());
}

std::vector<Flow> random_flows(Prng& random, uint32_t leaves, size_t count) {
  std::vector<Flow> flows(count);
  for (Flow& flow : flows) {
    flow = {static_cast<uint32_t>(random.below(leaves)),
            static_cast<uint32_t>(random.below(leaves)),
            1.0 + static_cast<double>(random.below(9))};
  }
  return flows;
}

// The bound is what no placement can beat; whole flows of sizes up to nine stay near it.
TEST(Plan, IrregularFabricsAreBalancedAndNeverUseADeadLink) {
  Prng random(11);
  double planned = 0, hashed = 0, bound = 0;
  for (int trial = 0; trial < 50; ++trial) {
    Fabric fabric = Fabric::uniform(6, 8, 1);
    for (int dead = 0; dead < 6; ++dead) fabric.up[random.below(fabric.up.size())] = 0;
    const std::vector<Flow> flows = random_flows(random, 6, 120);
    const auto placed = plan_paths(fabric, flows);
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    const auto loads = loads_of(fabric, flows, placed.value());
    ASSERT_TRUE(loads.ok()) << loads.status().message();
    planned += loads.value().most;
    bound += loads.value().least_possible;
    hashed += loads_of(fabric, flows, place_by_hash(fabric, flows, 1).value()).value().most;
  }
  EXPECT_LT(planned, 1.25 * bound);
  EXPECT_GT(hashed, 1.5 * planned);
}

// A library connects two ranks when they first talk, and knows nothing of later connections.
// All ranks of two nodes of 8 send in every step, and no step has more on one path than on another.
TEST(HomePaths, MakePermutationsOfTheSendsOfANode) {
  for (const uint32_t paths : {2u, 4u, 8u}) {
    HomePaths homes({8, 8}, paths);
    for (uint32_t step = 0; step < 16; ++step) {
      std::vector<uint32_t> up(paths, 0);
      for (uint32_t source = 0; source < 8; ++source) {
        ++up[homes.path_of(source, 0, 8 + (source + step) % 8)];
      }
      for (const uint32_t load : up) ASSERT_EQ(load, 8 / paths);
    }
    // Of leaders alone, too, whichever ranks they are.
    HomePaths leaders({64}, paths);
    std::vector<uint32_t> up(paths, 0);
    for (uint32_t leader = 0; leader < 8; ++leader) ++up[leaders.path_of(8 * leader, 0, 64)];
    for (const uint32_t load : up) ASSERT_EQ(load, 8 / paths);
    // A rank that is alone in its node sends to all at once, and hears from all.
    HomePaths alone(std::vector<uint32_t>(8, 1), paths);
    std::vector<uint32_t> out(paths, 0), in(paths, 0);
    for (uint32_t peer = 0; peer < 8; ++peer) {
      ++out[alone.path_of(3, 3, peer)];
      ++in[alone.path_of(peer, peer, 3)];
    }
    for (const uint32_t load : out) ASSERT_EQ(load, 8 / paths);
    for (const uint32_t load : in) ASSERT_EQ(load, 8 / paths);
  }
}

TEST(Balancer, SpreadsFlowsThatComeOneByOne) {
  Balancer balancer(Fabric::uniform(3, 4, 1), {});
  std::vector<int> up(4);
  for (int i = 0; i < 8; ++i) {
    const std::optional<uint32_t> spine = balancer.place({0, 2, 1.0});
    ASSERT_TRUE(spine);
    ++up[*spine];
  }
  EXPECT_EQ(up, std::vector<int>(4, 2));
  Fabric dead = Fabric::uniform(2, 2, 1);
  dead.up = {0, 0, 1, 1};
  EXPECT_FALSE(Balancer(dead, {}).place({0, 1, 1.0}));
}

TEST(Plan, AFlowStaysInOnePlane) {
  Fabric fabric = Fabric::uniform(2, 4, 1);
  fabric.plane_of = {0, 0, 1, 1};
  const std::vector<Flow> flows(3, {0, 1, 8.0});
  PlanOptions options;
  options.split = true;
  const auto placed = plan_paths(fabric, flows, options).value();
  EXPECT_TRUE(loads_of(fabric, flows, placed).ok());
  const std::vector<Placed> both = {{0, 0, 4}, {0, 2, 4}, {1, 1, 8}, {2, 3, 8}};
  const auto refused = loads_of(fabric, flows, both);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("planes 0 and 1"), std::string::npos);
  EXPECT_TRUE(loads_of(fabric, flows, both, {.planes_may_differ = true}).ok());
}

TEST(Loads, RefuseDeadLinksAndFlowsThatAreNotWhole) {
  Fabric fabric = Fabric::uniform(2, 2, 1);
  fabric.down[fabric.link(1, 0)] = 0;
  const std::vector<Flow> flows = {{0, 1, 4}};
  EXPECT_FALSE(loads_of(fabric, flows, {{0, 0, 4}}).ok());
  EXPECT_FALSE(loads_of(fabric, flows, {{0, 1, 3}}).ok());
  EXPECT_TRUE(loads_of(fabric, flows, {{0, 1, 4}}).ok());
  fabric.up[fabric.link(0, 1)] = 0;
  EXPECT_EQ(plan_paths(fabric, flows).status().code(), Code::kUnsupported);
}

TEST(Rebalance, PiecesEndTogetherAtTheRatesThatWereSeen) {
  const std::vector<Placed> placed = {{0, 0, 50}, {0, 1, 50}, {1, 2, 30}};
  const auto moved = rebalance(placed, {1, 3, 2}).value();
  EXPECT_DOUBLE_EQ(moved[0].bytes, 25);
  EXPECT_DOUBLE_EQ(moved[1].bytes, 75);
  EXPECT_DOUBLE_EQ(moved[2].bytes, 30);
  EXPECT_FALSE(rebalance(placed, {0, 0, 1}).ok());
  EXPECT_FALSE(rebalance(placed, {1, 1}).ok());
}

}  // namespace
}  // namespace tutti::paths
