#include "src/schedule/schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tutti::schedule {
namespace {

TEST(Schedule, BlocksRememberSpaceAndIndex) {
  for (Space space : {Space::kInput, Space::kOutput, Space::kScratch}) {
    for (uint32_t index : {0u, 1u, 0x3fffffffu}) {
      EXPECT_EQ(Block::of(space, index).space(), space);
      EXPECT_EQ(Block::of(space, index).index(), index);
    }
  }
  EXPECT_EQ(input(3), Block::of(Space::kInput, 3));
  EXPECT_EQ(output(3), Block::of(Space::kOutput, 3));
}

TEST(Schedule, SourcesAreMessagesOrLists) {
  EXPECT_TRUE(Source::message(0).is_message());
  EXPECT_EQ(Source::message(65535).peer(), 65535);
  EXPECT_FALSE(Source::local(7).is_message());
  EXPECT_EQ(Source::local(7).blocks(), 7u);
}

TEST(Schedule, EveryCollectiveHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < kCollectives; ++i) names.insert(name_of(static_cast<Collective>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kCollectives));
  EXPECT_EQ(std::string(name_of(Collective::kReduceScatter)), "reduce_scatter");
  EXPECT_TRUE(reduces(Collective::kAllReduce));
  EXPECT_TRUE(reduces(Collective::kReduceScatter));
  EXPECT_FALSE(reduces(Collective::kAllGather));
  EXPECT_FALSE(reduces(Collective::kBarrier));
}

}  // namespace
}  // namespace tutti::schedule
