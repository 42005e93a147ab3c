#include "src/group/view.h"

#include <gtest/gtest.h>

#include <string>

#include "src/group/members.h"

namespace tutti::group {
namespace {

Level level(std::string name, bool maps, std::vector<uint32_t> nodes) {
  return {std::move(name), {.map = maps, .stream = !maps}, std::move(nodes)};
}

// Processes {0, 2}, {1}, {3, 4}; hosts {0, 1, 2}, {3, 4}; one network.
std::vector<Level> three_levels() {
  return {level("process", true, {7, 3, 7, 1, 1}), level("host", true, {5, 5, 5, 2, 2}),
          level("network", false, {9, 9, 9, 9, 9})};
}

TEST(GroupView, NumbersNodesByTheirFirstRanks) {
  const GroupPointer group = GroupView::make(1, 2, placeholder_members(5), three_levels()).value();
  EXPECT_EQ(group->level(0).nodes, (std::vector<uint32_t>{0, 1, 0, 2, 2}));
  EXPECT_EQ(group->level(1).nodes, (std::vector<uint32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(group->first_ranks(0), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(group->first_ranks(1), (std::vector<int>{0, 3}));
  EXPECT_EQ(group->nodes(2), 1u);
  EXPECT_EQ(group->epoch(), 2u);
}

TEST(GroupView, TwoRanksTalkByTheInnermostLevelThatHoldsBoth) {
  const GroupPointer group = GroupView::make(1, 0, placeholder_members(5), three_levels()).value();
  EXPECT_EQ(group->common_level(0, 2), 0u);
  EXPECT_EQ(group->common_level(0, 1), 1u);
  EXPECT_EQ(group->common_level(2, 3), 2u);
  EXPECT_TRUE(group->link(0, 1).map);
  EXPECT_TRUE(group->link(0, 4).stream);
  EXPECT_FALSE(group->link(0, 4).map);
}

TEST(GroupView, HostsAreTheOutermostNodesThatMapMemory) {
  const GroupPointer group = GroupView::make(1, 0, placeholder_members(5), three_levels()).value();
  EXPECT_EQ(group->hosts(), 2u);
  EXPECT_TRUE(group->near(0, 1));
  EXPECT_FALSE(group->near(2, 3));
  const GroupPointer apart =
      GroupView::make(1, 0, placeholder_members(2), {level("network", false, {0, 0})}).value();
  EXPECT_EQ(apart->hosts(), 2u);
  EXPECT_FALSE(apart->near(0, 1));
  EXPECT_TRUE(apart->near(1, 1));
}

TEST(GroupView, ALevelThatTearsANodeApartIsRefused) {
  std::vector<Level> levels = three_levels();
  levels[1].nodes[2] = 4;  // its process is on another host
  const auto torn = GroupView::make(1, 0, placeholder_members(5), levels);
  ASSERT_FALSE(torn.ok());
  const std::string message(torn.status().message());
  EXPECT_NE(message.find("'host'"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 2 is apart from rank 0"), std::string::npos) << message;
}

TEST(GroupView, RanksThatNothingConnectsAreRefused) {
  std::vector<Level> levels = three_levels();
  levels.pop_back();
  const auto apart = GroupView::make(1, 0, placeholder_members(5), levels);
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.status().message().find("nothing connects them"), std::string::npos);
  EXPECT_FALSE(GroupView::make(1, 0, placeholder_members(0), levels).ok());
  EXPECT_FALSE(GroupView::make(1, 0, placeholder_members(1), {}).ok());
  EXPECT_FALSE(GroupView::make(1, 0, placeholder_members(2), levels).ok());
}

TEST(GroupView, KnowsTheRanksOfAHostWithoutLookingAtTheOthers) {
  const GroupPointer group = group_on_hosts({0, 1, 0, 1, 1});
  const auto near = [&](int rank) {
    const auto ranks = group->near_ranks(rank);
    return std::vector<int>(ranks.begin(), ranks.end());
  };
  EXPECT_EQ(near(2), (std::vector<int>{0, 2}));
  EXPECT_EQ(near(1), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(group->near_place(4), 2u);
  EXPECT_EQ(group->near_place(0), 0u);
  EXPECT_EQ(group->first_of_largest_host(), 1);
  EXPECT_EQ(group->host_first_ranks(), (std::vector<int>{0, 1}));
}

TEST(GroupView, OfHostsHasANetworkBetweenThem) {
  const GroupPointer group = group_on_hosts({0, 0, 1, 0});
  EXPECT_EQ(group->ranks(), 4);
  EXPECT_TRUE(group->near(0, 3));
  EXPECT_EQ(group->level(group->common_level(1, 2)).name, "network");
}

}  // namespace
}  // namespace tutti::group
