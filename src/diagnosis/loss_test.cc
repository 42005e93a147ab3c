#include "src/diagnosis/loss.h"

#include <gtest/gtest.h>

namespace tutti::diagnosis {
namespace {

constexpr int kLast = static_cast<int>(Loss::kMostRanks) - 1;

TEST(Loss, IsReadAsItWasWritten) {
  const Loss losses[] = {{0, {}},          {0, {0, -1}},   {3, {2, -1}},
                         {3, {2, 1}},      {2, {0, 0}},    {kLast, {kLast, kLast}},
                         {kLast, {0, -1}}, {0, {kLast, 0}}};
  for (const Loss& loss : losses) {
    EXPECT_NE(loss.word(), 0u);
    EXPECT_EQ(Loss::read(loss.word(), Loss::kMostRanks), loss) << loss.word();
  }
}

TEST(Loss, NamesOnlyRanksThatThereAre) {
  EXPECT_FALSE(Loss::read(0, 4));
  EXPECT_TRUE(Loss::read(Loss{3, {3, 3}}.word(), 4));
  for (const Loss& wrong : {Loss{4, {}}, Loss{0, {4, -1}}, Loss{0, {0, 4}}}) {
    EXPECT_FALSE(Loss::read(wrong.word(), 4)) << wrong.word();
  }
  EXPECT_FALSE(Loss::read(~uint64_t{0}, Loss::kMostRanks));
}

TEST(Loss, ThatCallsDifferSaysMoreThanWhoLeft) {
  const Loss gone{1, {}}, because{1, {0, -1}}, differ{1, {3, 2}};
  for (const Loss& other : {gone, because}) {
    EXPECT_TRUE(differ.says_more_than(other));
    EXPECT_FALSE(other.says_more_than(differ));
    EXPECT_FALSE(other.says_more_than(gone));
    EXPECT_FALSE(other.says_more_than(because));
  }
  EXPECT_FALSE(differ.says_more_than(differ));
}

TEST(Loss, WhatSaysMoreStaysTold) {
  const Loss gone{1, {}}, because{2, {0, -1}}, differ{1, {3, 2}}, also{2, {3, 0}};
  std::atomic<uint64_t> word{0};
  const auto told = [&](const Loss& loss) {
    loss.tell(word, 4);
    return *Loss::read(word.load(), 4);
  };
  EXPECT_EQ(told(gone), gone);
  EXPECT_EQ(told(because), gone);
  EXPECT_EQ(told(differ), differ);
  EXPECT_EQ(told(gone), differ);
  EXPECT_EQ(told(also), differ);
}

}  // namespace
}  // namespace tutti::diagnosis
