#include "src/schedule/node_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::schedule {
namespace {

using Levels = std::vector<std::vector<uint32_t>>;
using Ranks = std::vector<int>;

Ranks ranks_of(const NodeTree& tree, size_t level, uint32_t node) {
  const auto ranks = tree.ranks_of(level, node);
  return {ranks.begin(), ranks.end()};
}

// Hosts {0, 3}, {1}, {2, 4}; sites {0, 3, 2, 4}, {1}.
Levels three_levels() { return {{7, 2, 9, 7, 9}, {1, 8, 1, 1, 1}, {4, 4, 4, 4, 4}}; }

TEST(NodeTree, HoldsRanksOnNodesInAnyOrder) {
  const NodeTreePointer tree = NodeTree::make(three_levels()).value();
  ASSERT_EQ(tree->levels(), 3u);
  EXPECT_EQ(tree->nodes(0), 3u);
  EXPECT_EQ(ranks_of(*tree, 0, 0), (Ranks{0, 3}));
  EXPECT_EQ(ranks_of(*tree, 1, 0), (Ranks{0, 3, 2, 4}));
  EXPECT_EQ(ranks_of(*tree, 2, 0), (Ranks{0, 3, 2, 4, 1}));
  EXPECT_EQ(tree->child_of(1, 4), 1u);
  EXPECT_EQ(tree->child_of(0, 3), 1u);
  EXPECT_EQ(tree->common_level(0, 3), 0u);
  EXPECT_EQ(tree->common_level(2, 3), 1u);
  EXPECT_EQ(tree->common_level(1, 3), 2u);
}

TEST(NodeTree, LeavesOutLevelsAtWhichNothingJoins) {
  Levels levels = three_levels();
  levels.insert(levels.begin(), {0, 1, 2, 3, 4});
  levels.insert(levels.begin() + 2, {0, 1, 2, 0, 2});
  levels.push_back({0, 0, 0, 0, 0});
  EXPECT_EQ(*NodeTree::make(levels).value(), *NodeTree::make(three_levels()).value());
  EXPECT_EQ(NodeTree::make({{0}, {0}}).value()->levels(), 1u);
  EXPECT_EQ(*NodeTree::make({{0}, {0}}).value(), *NodeTree::flat(1));
}

TEST(NodeTree, RefusesWhatIsNone) {
  Levels torn = three_levels();
  torn[1][4] = 8;
  const auto refused = NodeTree::make(torn);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("level 1 of a tree: rank 4 is apart from rank 2"),
            std::string::npos)
      << refused.status().message();
  Levels apart = three_levels();
  apart.pop_back();
  EXPECT_NE(NodeTree::make(apart).status().message().find("nothing connects them"),
            std::string::npos);
  Levels short_one = three_levels();
  short_one[2].pop_back();
  EXPECT_FALSE(NodeTree::make(short_one).ok());
  EXPECT_FALSE(NodeTree::make({}).ok());
  EXPECT_FALSE(NodeTree::make({{}}).ok());
}

}  // namespace
}  // namespace tutti::schedule
