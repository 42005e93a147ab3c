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
      {"a", "b", "b", "", "", "c"}, {"", "x", "", "x", "", ""}, {"", "", "", "", "", ""}};
  const std::vector<uint32_t> above = {0, 1, 1, 1, 4, 5};
  EXPECT_EQ(nodes_of(texts, 6), (Nodes{{0, 1, 1, 3, 4, 5}, above, above}));
}

// Ranks 0 and 3 have nothing in common but a chain of others.
TEST(Levels, ChainsOfNeighborhoodsAreOneNode) {
  const std::vector<std::vector<std::string>> texts = {{"a", "a", "b", "b"}, {"", "x", "x", ""}};
  EXPECT_EQ(nodes_of(texts, 4).back(), (std::vector<uint32_t>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace tutti::group
