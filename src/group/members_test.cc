#include "src/group/members.h"

#include <gtest/gtest.h>

namespace tutti::group {
namespace {

constexpr uint32_t kNone = MemberId::kNoNumber;
constexpr ProcessId kA{1, 1}, kB{1, 2};

std::vector<uint32_t> numbers_of(const std::vector<MemberId>& claims) {
  std::vector<uint32_t> numbers;
  for (const MemberId& member : number_members(claims)) numbers.push_back(member.number);
  return numbers;
}

TEST(Members, NewOnesAreNumberedWithinTheirProcess) {
  EXPECT_EQ(numbers_of({{kA, kNone}, {kB, kNone}, {kA, kNone}, {kB, kNone}}),
            (std::vector<uint32_t>{0, 0, 1, 1}));
}

// Ranks 0 and 1 of the parent are ranks 1 and 0 of what a split makes.
TEST(Members, ANumberStaysWhateverTheRankBecomes) {
  EXPECT_EQ(numbers_of({{kA, 1}, {kA, 0}, {kB, 5}}), (std::vector<uint32_t>{1, 0, 5}));
}

TEST(Members, WhoJoinsGetsANumberThatIsFree) {
  EXPECT_EQ(numbers_of({{kA, kNone}, {kA, 0}, {kA, kNone}, {kB, kNone}}),
            (std::vector<uint32_t>{1, 0, 2, 0}));
}

// Two groups of one process have numbered its ranks; both meet in a third one.
TEST(Members, OfTwoWithOneNumberTheLowerRankKeepsIt) {
  EXPECT_EQ(numbers_of({{kA, 1}, {kA, 1}, {kA, 0}}), (std::vector<uint32_t>{1, 2, 0}));
}

}  // namespace
}  // namespace tutti::group
