// Edits in ranks become wishes of members, or are refused with the field that is wrong.
#include "src/comm/edit_plan.h"

#include <gtest/gtest.h>

#include "src/group/members.h"

namespace tutti::comm {
namespace {

consensus::View view_of(size_t ranks) { return {4, {}, group::placeholder_members(ranks), {}}; }

std::string refusal_of(const EditPlan& plan) {
  const auto wish = wish_of(plan, view_of(4));
  EXPECT_EQ(wish.status().code(), Code::kInvalidArgument);
  return std::string(wish.status().message());
}

TEST(EditPlan, NamesTheMembersOfItsRanksWhateverTheirOrder) {
  EditPlan one, other;
  one.removed = {3, 1};
  other.removed = {1, 3};
  const consensus::View view = view_of(4);
  const auto wish = wish_of(one, view);
  ASSERT_TRUE(wish.ok());
  EXPECT_EQ(wish.value(), wish_of(other, view).value());
  EXPECT_EQ(consensus::staying(wish.value(), view),
            (std::vector<MemberId>{view.members[0], view.members[2]}));
}

TEST(EditPlan, AnOrderRemovesWhoIsNotListed) {
  EditPlan plan;
  plan.order = {2, kNewcomer, 0};
  const consensus::View view = view_of(4);
  const auto wish = wish_of(plan, view);
  ASSERT_TRUE(wish.ok());
  EXPECT_EQ(wish.value().join, 1u);
  EXPECT_EQ(wish.value().leave, (std::vector<MemberId>{view.members[1], view.members[3]}));
}

TEST(EditPlan, SaysWhichFieldIsWrong) {
  EditPlan plan;
  plan.removed = {4};
  EXPECT_NE(refusal_of(plan).find("removed has 4"), std::string::npos);
  plan.removed = {1, 1};
  EXPECT_NE(refusal_of(plan).find("twice"), std::string::npos);
  plan.removed = {0, 1, 2, 3};
  EXPECT_NE(refusal_of(plan).find("every member"), std::string::npos);
  plan.removed = {1};
  plan.removes_dead = true;
  EXPECT_NE(refusal_of(plan).find("not both"), std::string::npos);
  plan = {};
  plan.order = {0, 0};
  EXPECT_NE(refusal_of(plan).find("order has rank 0 twice"), std::string::npos);
  plan.order = {-2};
  EXPECT_NE(refusal_of(plan).find("order has -2"), std::string::npos);
  plan.order = {0, kNewcomer};
  plan.newcomers = 2;
  EXPECT_NE(refusal_of(plan).find("1 newcomers"), std::string::npos);
  plan = {};
  plan.at_least = 5;
  EXPECT_NE(refusal_of(plan).find("5 answers"), std::string::npos);
}

}  // namespace
}  // namespace tutti::comm
