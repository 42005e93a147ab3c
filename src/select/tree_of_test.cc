#include "src/select/tree_of.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/group/members.h"

namespace tutti::select {
namespace {

group::Level level(const char* name, bool maps, std::vector<uint32_t> nodes) {
  return {name, {.map = maps, .stream = !maps}, std::move(nodes)};
}

TEST(TreeOf, AGroupBeginsWithItsHosts) {
  const auto group =
      group::GroupView::make(
          1, 0, group::placeholder_members(5),
          {level("process", true, {0, 1, 0, 2, 3}), level("host", true, {0, 0, 0, 1, 2}),
           level("rack", false, {0, 0, 0, 1, 1}), level("network", false, {0, 0, 0, 0, 0})})
          .value();
  const schedule::NodeTreePointer tree = tree_of(*group);
  ASSERT_EQ(tree->levels(), 3u);
  EXPECT_EQ(tree->nodes(0), 3u);
  EXPECT_EQ(tree->common_level(0, 2), 0u);
  EXPECT_EQ(tree->common_level(3, 4), 1u);
  EXPECT_EQ(tree->common_level(0, 4), 2u);
}

TEST(TreeOf, RanksThatMapNobodysMemoryAreApart) {
  const auto group = group::GroupView::make(1, 0, group::placeholder_members(3),
                                            {level("network", false, {0, 0, 0})})
                         .value();
  EXPECT_EQ(*tree_of(*group), *schedule::NodeTree::flat(3));
  EXPECT_EQ(*tree_of(*group::group_on_hosts({0, 0, 0})), *schedule::NodeTree::flat(3));
  EXPECT_EQ(*tree_of(*group::group_on_hosts({0, 1, 2})), *schedule::NodeTree::flat(3));
  EXPECT_EQ(tree_of(*group::group_on_hosts({0, 0, 1}))->levels(), 2u);
}

}  // namespace
}  // namespace tutti::select
