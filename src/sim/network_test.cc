#include "src/sim/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/sim/cluster.h"
#include "src/topology/cluster_file.h"

namespace tutti::sim {
namespace {

std::vector<std::string> route(const Network& network, int source, int target) {
  std::vector<std::string> links;
  network.route(source, target, [&](uint32_t link) { links.push_back(network.describe(link)); });
  return links;
}

Network two_racks() {
  return std::move(uniform_network({{"host", 2, 100, 0, true, 20},
                                    {"rack", 2, 1'000, 10, false, 0},
                                    {"zone", 2, 5'000, 15, false, 0}}))
      .value();
}

TEST(Network, RoutesBelowTheInnermostCommonNode) {
  const Network network = two_racks();
  EXPECT_THAT(route(network, 0, 1), testing::IsEmpty()) << "their memory is mapped";
  EXPECT_THAT(route(network, 0, 3), testing::ElementsAre("up from rank 0", "up from host 0",
                                                         "down to host 1", "down to rank 3"));
  EXPECT_THAT(route(network, 7, 0),
              testing::ElementsAre("up from rank 7", "up from host 3", "up from rack 1",
                                   "down to rack 0", "down to host 0", "down to rank 0"));
  EXPECT_EQ(network.latency_ns(0, 1), 100);
  EXPECT_EQ(network.latency_ns(7, 0), 5'000);
  EXPECT_EQ(network.link(network.link_id(LinkWay::kUp, 1, 3)).bytes_per_ns, 10);
  EXPECT_EQ(network.link(network.link_id(LinkWay::kDown, 2, 1)).bytes_per_ns, 15);
  EXPECT_EQ(network.describe(network.medium_of(5)), "memory of host 2");
}

TEST(Network, DividesUplinksAndNoPorts) {
  Network network = two_racks();
  ASSERT_TRUE(network.divide_uplinks(5, PathRule::kHashed).ok());
  EXPECT_EQ(network.link(network.link_id(LinkWay::kUp, 1, 3, 4)).bytes_per_ns, 2);
  EXPECT_EQ(network.describe(network.link_id(LinkWay::kDown, 2, 1, 2)), "down to rack 1 by path 2");
  EXPECT_EQ(network.describe(network.medium_of(5)), "memory of host 2");
  std::vector<std::string> links;
  network.route(
      0, 3, [&](uint32_t link) { links.push_back(network.describe(link)); },
      [](size_t, uint32_t, uint32_t) { return 2u; });
  EXPECT_THAT(links, testing::ElementsAre("up from rank 0", "up from host 0 by path 2",
                                          "down to host 1 by path 2", "down to rank 3"));
  EXPECT_FALSE(network.divide_uplinks(2, PathRule::kHashed).ok()) << "twice";
  ASSERT_TRUE(network.fail({.level = 2, .node = 1, .factor = 0.5}).ok());
  for (uint32_t path = 0; path < 5; ++path) {
    EXPECT_EQ(network.link(network.link_id(LinkWay::kUp, 2, 1, path)).bytes_per_ns, 1.5) << path;
  }
  EXPECT_FALSE(two_racks().divide_uplinks(0, PathRule::kPlanned).ok());
}

TEST(Network, IsLateWhereALinkIs) {
  Network network = two_racks();
  ASSERT_TRUE(network.fail({.level = 2, .node = 1, .delay_ns = 7'000}).ok());
  EXPECT_EQ(network.latency_ns(0, 7), 12'000);
  EXPECT_EQ(network.latency_ns(4, 7), 1'000);
  EXPECT_FALSE(network.is_sound());
}

TEST(Network, RefusesFaultsOfWhatIsNotThere) {
  Network network = two_racks();
  const auto said = [&](const LinkFault& fault) {
    return std::string(network.fail(fault).message());
  };
  EXPECT_THAT(said({.level = 3}), testing::HasSubstr("no links"));
  EXPECT_THAT(said({.level = 1, .node = 4}), testing::HasSubstr("no host 4"));
  EXPECT_THAT(said({.level = 1, .node = 0, .factor = 0}), testing::HasSubstr("factor above 0"));
  EXPECT_THAT(said({.level = 1, .node = 0, .loss = 1}), testing::HasSubstr("below 1"));
  EXPECT_THAT(said({.level = 0, .node = 0, .factor = 0.5}), testing::HasSubstr("no bandwidth"));
  EXPECT_TRUE(network.is_sound());
}

TEST(Network, RefusesTreesThatContradictThemselves) {
  const auto said = [](std::vector<TreeLevel> levels, std::vector<double> ports) {
    const Result<Network> made = Network::make(std::move(levels), std::move(ports));
    return std::string(made.status().message());
  };
  const TreeLevel host{"host", 0, true, {0, 1}, {1, 1}, 0};
  const TreeLevel zone{"zone", 0, false, {0, 0}, {}, 0};
  EXPECT_EQ(said({host, zone}, {0, 0}), "ok");
  EXPECT_THAT(said({}, {0, 0}), testing::HasSubstr("levels"));
  EXPECT_THAT(said({host, zone}, {}), testing::HasSubstr("without ranks"));
  EXPECT_THAT(said({host, zone}, {0, 0, 0}), testing::HasSubstr("places 2 ranks of 3"));
  EXPECT_THAT(said({zone, host}, {0, 0}), testing::HasSubstr("a level below it does not"));
  TreeLevel bad = host;
  bad.uplinks = {1};
  EXPECT_THAT(said({bad, zone}, {0, 0}), testing::HasSubstr("uplinks for 1"));
  bad = zone;
  bad.shared_bytes_per_ns = 1;
  EXPECT_THAT(said({host, bad}, {0, 0}), testing::HasSubstr("does not map memory"));
  bad = host;
  bad.nodes = {1, 0};
  EXPECT_THAT(said({bad, zone}, {0, 0}), testing::HasSubstr("order of their first ranks"));
}

TEST(Network, OfAClusterFileHasItsLinks) {
  const auto topology = topology::parse_cluster(R"({ "tutti_topology": 1,
    "levels": [ {"name": "zone", "latency_us": 7},
                {"name": "rack", "latency_us": 2, "port_GB_per_s": 50, "oversubscription": 2},
                {"name": "host", "latency_us": 1, "shared_GB_per_s": 100} ],
    "tree": { "children": [ {"count": 2, "children": [ {"count": 4, "ranks": 3} ]} ] } })",
                                                "file");
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  const Result<Network> made = network_of(topology.value());
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Network& network = made.value();
  EXPECT_EQ(network.ranks(), 24);
  EXPECT_EQ(network.link(network.link_id(LinkWay::kUp, 1, 7)).bytes_per_ns, 50);
  EXPECT_EQ(network.link(network.link_id(LinkWay::kUp, 2, 1)).bytes_per_ns, 100);
  EXPECT_EQ(network.latency_ns(0, 23), 7'000);
  EXPECT_EQ(network.latency_ns(0, 2), 1'000);
  EXPECT_TRUE(network.group()->near(0, 2));
  EXPECT_FALSE(network.group()->near(0, 3));
  EXPECT_EQ(network.link(network.medium_of(0)).bytes_per_ns, 100);
}

}  // namespace
}  // namespace tutti::sim
