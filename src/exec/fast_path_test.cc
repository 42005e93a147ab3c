// The short form of plans. That it does what they say is tested beside the interpreter
// (host_executor_test.cc).
#include "src/exec/fast_path.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"

namespace tutti::exec {
namespace {

plan::Plan first_of_two(const char* algorithm, uint64_t count) {
  const plan::Lowering lowering{plan::examples::find(registry::algorithms(), algorithm),
                                {.ranks = 2}};
  return plan::bind(plan::match_all(lowering).value()[0], {count}, {});
}

FastPath::NextStores claim_of(const plan::Plan& plan) {
  const std::optional<FastPath> path = FastPath::compile(HostProgram(plan), 0);
  EXPECT_TRUE(path.has_value());
  return path.has_value() ? path->claim() : FastPath::NextStores{};
}

uint64_t published_cell(const plan::Plan& plan) {
  const auto raise = std::ranges::find(plan.ops, plan::OpCode::kRaise, &plan::Op::code);
  EXPECT_NE(raise, plan.ops.end());
  return raise == plan.ops.end() ? 0 : raise->value;
}

TEST(FastPath, ClaimsWhatTheNextCallPublishes) {
  struct {
    uint64_t count;
    uint64_t begin;  // from the cell
    uint32_t lines;
  } const cases[] = {{1, 0, 1}, {plan::kCellShortBytes / 4, 0, 1}, {16, 128, 1}, {200, 128, 13}};
  for (const auto& c : cases) {
    const plan::Plan plan = first_of_two("all_reduce/one_shot", c.count);
    const uint64_t cells = plan.lanes[0].cells + published_cell(plan);
    EXPECT_EQ(claim_of(plan).offset, cells * plan::kCellStride + c.begin) << c.count;
    EXPECT_EQ(claim_of(plan).lines, c.lines) << c.count;
  }
}

TEST(FastPath, ClaimsTheFlagWhereNothingElseIsPublished) {
  const plan::Plan plan = first_of_two("barrier/dissemination", 0);
  const uint64_t cells = plan.lanes[0].cells + published_cell(plan);
  EXPECT_EQ(claim_of(plan).offset, cells * plan::kCellStride);
  EXPECT_EQ(claim_of(plan).lines, 1u);
}

TEST(FastPath, ClaimsNothingWhereReadersMayStillBeInTheLine) {
  const plan::Plan plan = first_of_two("broadcast/publish_once", 1);
  ASSERT_TRUE(plan.lanes[0].tiny);
  EXPECT_EQ(claim_of(plan).lines, 0u);
}

TEST(FastPath, MessagesThatCrossEachOtherShareNoLine) {
  EXPECT_FALSE(first_of_two("all_reduce/one_shot", 1).lanes[0].tiny);
}

}  // namespace
}  // namespace tutti::exec
