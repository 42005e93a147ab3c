#include "src/topology/topology.h"

#include <gtest/gtest.h>

namespace tutti::topology {
namespace {

// Two racks of 3 and 2 hosts, of 2 ranks each but the last one, of 1.
Result<Topology> racks() {
  NodeSpec three{.names = {"a", "b", "c"}, .count = 3, .leaves = 2};
  NodeSpec one{.names = {"d"}, .leaves = 2}, last{.names = {"e"}, .leaves = 1};
  const NodeSpec root{.children = {{.children = {three}}, {.children = {one, last}}}};
  return Topology::make(
      "racks",
      {{.name = "host", .latency_ns = 500, .port_bytes_per_ns = 100},
       {.name = "rack", .latency_ns = 1000, .port_bytes_per_ns = 50, .oversubscription = 2.5},
       {.name = "zone", .latency_ns = 7000}},
      root);
}

TEST(Topology, IsATreeWhoseNodesAreNeighbours) {
  const Topology made = racks().value();
  EXPECT_EQ(made.levels(), 3u);
  EXPECT_EQ(made.leaves(), 9u);
  EXPECT_EQ(made.nodes(0), 5u);
  EXPECT_EQ(made.nodes(1), 2u);
  EXPECT_EQ(made.nodes(2), 1u);
  EXPECT_EQ(made.leaves_of(1, 1).first, 6u);
  EXPECT_EQ(made.leaves_of(1, 1).last, 9u);
  EXPECT_EQ(made.children(1, 1).first, 3u);
  EXPECT_EQ(made.children(2, 0).size(), 2u);
  EXPECT_EQ(made.parent(0, 3), 1u);
  EXPECT_EQ(made.node_of(0, 8), 4u);
}

TEST(Topology, TwoLeavesTalkByTheInnermostCommonNode) {
  const Topology made = racks().value();
  EXPECT_EQ(made.common_level(0, 1), 0u);
  EXPECT_EQ(made.common_level(1, 2), 1u);
  EXPECT_EQ(made.common_level(0, 8), 2u);
}

TEST(Topology, FindsHostsByTheirNames) {
  const Topology made = racks().value();
  EXPECT_EQ(made.find_host("d"), 3u);
  EXPECT_EQ(made.find_host("a"), 0u);
  EXPECT_FALSE(made.find_host("f").has_value());
  EXPECT_EQ(made.describe(0, 4), "host 'e'");
  EXPECT_EQ(made.describe(1, 1), "rack 1");
}

// A rack of three hosts has an uplink of 3 * 50 / 2.5, one of two hosts of 2 * 50 / 2.5.
TEST(Topology, AnOversubscribedUplinkFollowsFromThePortsOfItsNode) {
  const Topology made = racks().value();
  EXPECT_EQ(made.uplink_bytes_per_ns(0, 0), 50);
  EXPECT_EQ(made.uplink_bytes_per_ns(1, 0), 60);
  EXPECT_EQ(made.uplink_bytes_per_ns(1, 1), 40);
  EXPECT_EQ(made.uplink_bytes_per_ns(2, 0), 0);
}

TEST(Topology, ANodesOwnUplinkCountsBeforeThoseOfLevels) {
  const NodeSpec thin{.count = 1, .uplink_bytes_per_ns = 3, .leaves = 2};
  const NodeSpec usual{.count = 2, .leaves = 2};
  const Topology made =
      Topology::make("", {{.name = "host"}, {.name = "rack", .port_bytes_per_ns = 50}},
                     NodeSpec{.children = {usual, thin}})
          .value();
  EXPECT_EQ(made.uplink_bytes_per_ns(0, 1), 50);
  EXPECT_EQ(made.uplink_bytes_per_ns(0, 2), 3);
  EXPECT_TRUE(made.has_own_uplink(0, 2));
  EXPECT_FALSE(made.has_own_uplink(0, 0));
}

TEST(Topology, CountsAreBoundedBeforeAnythingIsMade) {
  NodeSpec node{.count = ~0u, .leaves = ~0u};
  std::vector<LevelSpec> levels = {{.name = "host"}};
  for (int level = 0; level < 8; ++level) {
    node = NodeSpec{.count = ~0u, .children = std::vector<NodeSpec>(3, node)};
    levels.push_back({.name = "level " + std::to_string(level)});
  }
  node.count = 1;
  const Result<Topology> made = Topology::make("", levels, node);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("more than 4194304 leaves"), std::string::npos)
      << made.status().message();
}

TEST(Topology, EqualOnesCompareEqual) {
  EXPECT_EQ(racks().value(), racks().value());
  const Topology other = Topology::make("racks", {{.name = "host"}}, NodeSpec{.leaves = 9}).value();
  EXPECT_FALSE(other == racks().value());
}

}  // namespace
}  // namespace tutti::topology
