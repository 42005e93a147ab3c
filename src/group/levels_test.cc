#include "src/group/levels.h"

#include <gtest/gtest.h>

namespace tutti::group {
namespace {

using Nodes = std::vector<std::vector<uint32_t>>;

TEST(Levels, RanksWithEqualTextsShareANode) {
  const std::vector<std::vector<std::string>> texts = {{"a", "b", "b", "", "", "c"}};
  EXPECT_EQ(nodes_of(texts, 6), (Nodes{{0, 1, 1, 3, 4, 5}}));
}

TEST(Levels, WhatIsTogetherStaysTogetherOnAllLevelsAbove) {
  const std::vector<std::vector<std::string>> texts = {
      {"a", "b", "b", "", "", "c"}, {"", "x", "x", "x", "", ""}, {"", "", "", "", "", ""}};
  const std::vector<uint32_t> above = {0, 1, 1, 1, 4, 5};
  EXPECT_EQ(nodes_of(texts, 6), (Nodes{{0, 1, 1, 3, 4, 5}, above, above}));
}

// Rank 1 has no part in the network "x", so its host has none either: else ranks 1 and 2 would
// share a node of a network that does not connect them.
TEST(Levels, ANodeJoinsANetworkWithAllItsRanks) {
  const std::vector<std::vector<std::string>> texts = {
      {"a", "a", "b", "b", "c"}, {"x", "", "x", "x", "x"}, {"y", "y", "y", "y", "y"}};
  EXPECT_EQ(nodes_of(texts, 5), (Nodes{{0, 0, 2, 2, 4}, {0, 0, 2, 2, 2}, {0, 0, 0, 0, 0}}));
}

// Ranks 0 and 3 have nothing in common but a chain of others.
TEST(Levels, ChainsOfNeighborhoodsAreApart) {
  const std::vector<std::vector<std::string>> texts = {{"a", "a", "b", "b"}, {"", "x", "x", ""}};
  EXPECT_EQ(nodes_of(texts, 4).back(), (std::vector<uint32_t>{0, 0, 2, 2}));
}

Level network(std::string transport, std::vector<uint32_t> nodes) {
  return {transport + "-net", {.stream = true}, std::move(nodes), 0, {}, transport};
}

Level described(std::string name, std::vector<uint32_t> nodes) {
  return {std::move(name), {.stream = true}, std::move(nodes), 1000, {}, {}};
}

std::string text_of(const Result<std::vector<Level>>& levels) {
  if (!levels.ok()) return std::string(levels.status().message());
  std::string text;
  for (const Level& level : levels.value()) text += level.name + "/" + level.transport + " ";
  return text;
}

TEST(Levels, ADescribedLevelReplacesTheNetworkWithItsNodes) {
  const std::vector<Level> one = {network("slow", {0, 0, 0, 0})};
  EXPECT_EQ(
      text_of(divide(one, {described("rack", {0, 0, 2, 2}), described("zone", {0, 0, 0, 0})})),
      "rack/slow zone/slow ");
  EXPECT_EQ(text_of(divide(one, {described("rack", {0, 0, 2, 2})})), "rack/slow slow-net/slow ");
  EXPECT_EQ(text_of(divide(one, {})), "slow-net/slow ");
}

TEST(Levels, OfTwoNetworksEachConnectsTheLevelsWithinIt) {
  const std::vector<Level> two = {network("fast", {0, 0, 0, 0, 4, 4, 4, 4}),
                                  network("slow", {0, 0, 0, 0, 0, 0, 0, 0})};
  const Level rack = described("rack", {0, 0, 2, 2, 4, 4, 6, 6});
  const Level pod = described("pod", {0, 0, 0, 0, 4, 4, 4, 4});
  const Level zone = described("zone", {0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(text_of(divide(two, {rack, pod, zone})), "rack/fast pod/fast zone/slow ");
  EXPECT_EQ(text_of(divide(two, {rack, zone})), "rack/fast fast-net/fast zone/slow ");
  EXPECT_EQ(text_of(divide(two, {rack})), "rack/fast fast-net/fast slow-net/slow ");
  EXPECT_EQ(text_of(divide(two, {zone})), "fast-net/fast zone/slow ");
}

TEST(Levels, ANetworkThatCrossesDescribedNodesIsRefused) {
  const std::vector<Level> two = {network("fast", {0, 1, 1, 3}), network("slow", {0, 0, 0, 0})};
  const std::string why = text_of(divide(two, {described("rack", {0, 0, 2, 2})}));
  EXPECT_NE(why.find("'rack'"), std::string::npos) << why;
  EXPECT_NE(why.find("'fast'"), std::string::npos) << why;
}

}  // namespace
}  // namespace tutti::group
