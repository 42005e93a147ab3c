#include "src/plan/shared_places.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"

namespace tutti::plan {
namespace {

constexpr VerifyPlanOptions kTight = {.rounds = 3, .regions = 1, .frames_per_region = 1};

const schedule::Algorithm* find(const char* name) {
  return examples::find(registry::algorithms(), name);
}

BindRequest sum_of(uint64_t count) {
  return {count, types::DataType::kFloat64, types::ReduceOp::kSum};
}

PlanSet bound(const schedule::Algorithm& algorithm, int ranks, BindRequest request,
              Placing placing = Placing::kSeparate) {
  Lowering lowering;
  lowering.algorithm = &algorithm;
  lowering.parameters = {.ranks = ranks};
  lowering.placing = placing;
  const Result<std::vector<Match>> matches = match_all(lowering);
  EXPECT_TRUE(matches.ok()) << matches.status().message();
  request.shares_places = true;
  return bind_all(matches.value(), request, small_tuning(false));
}

size_t sharing(const PlanSet& set) {
  const auto ranks = static_cast<uint32_t>(set.plans.size());
  return static_cast<size_t>(
      std::count_if(set.plans.begin(), set.plans.end(), [&](const Plan& plan) {
        return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const Op& op) {
          return shared_place_of(plan, op, ranks).has_value();
        });
      }));
}

TEST(SharedPlaces, AreProvedForAllRanksOfAnExchange) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const uint64_t count : {uint64_t{8}, uint64_t{40}, uint64_t{1001}}) {
      for (const Placing placing : {Placing::kSeparate, Placing::kInPlace}) {
        const PlanSet set = bound(*find("all_reduce/two_shot"), ranks, sum_of(count), placing);
        EXPECT_EQ(sharing(set), static_cast<size_t>(ranks)) << ranks << " ranks, " << count;
        const Status status = verify_plans(set, kTight);
        EXPECT_TRUE(status.ok()) << ranks << " ranks, " << count << ": " << status.message();
      }
    }
  }
}

// A rank without elements of its own folds nothing, and then nobody shares anything.
TEST(SharedPlaces, AreThoseOfAllRanksOrOfNone) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const int ranks : {2, 3, 4, 7}) {
      for (const uint64_t count : {1, 2, 3, 5, 8, 9, 64}) {
        const PlanSet set = bound(algorithm, ranks, sum_of(count));
        const size_t share = sharing(set);
        EXPECT_TRUE(share == 0 || share == set.plans.size())
            << algorithm.name << ", " << ranks << " ranks, " << count << ": " << share;
        const Status status = verify_plans(set, kTight);
        EXPECT_TRUE(status.ok()) << algorithm.name << ": " << status.message();
      }
    }
  }
}

TEST(SharedPlaces, AreNotThoseOfAveragesWhichDivide) {
  const PlanSet set =
      bound(*find("all_reduce/two_shot"), 4, {40, types::DataType::kInt64, types::ReduceOp::kAvg});
  EXPECT_EQ(sharing(set), 0u);
}

/// The message, or "" where the plans are right.
std::string proof_of(const PlanSet& set) {
  const Status status = verify_plans(set, kTight);
  return status.ok() ? "" : std::string(status.message());
}

TEST(SharedPlaces, WithoutAWaitAreRefused) {
  const PlanSet right = bound(*find("all_reduce/two_shot"), 3, sum_of(1001));
  ASSERT_EQ(proof_of(right), "");
  for (size_t which = 0; which < right.plans[1].ops.size(); ++which) {
    PlanSet wrong = right;
    Plan& plan = wrong.plans[1];
    if (plan.ops[which].code != OpCode::kWait) continue;
    plan.ops.erase(plan.ops.begin() + static_cast<std::ptrdiff_t>(which));
    --plan.lanes[0].end;
    EXPECT_NE(proof_of(wrong), "") << "without micro-operation " << which;
  }
}

TEST(SharedPlaces, OfAnotherRankAreRefused) {
  PlanSet wrong = bound(*find("all_reduce/two_shot"), 3, sum_of(40));
  Plan& plan = wrong.plans[1];
  for (const Op& op : plan.ops) {
    if (!shared_place_of(plan, op, 3)) continue;
    const uint64_t stride = plan.lanes[0].frame_bytes / 3;
    for (uint32_t i = 0; i < 6; ++i) plan.operands[op.operands + i].offset = 2 * stride;
  }
  EXPECT_NE(proof_of(wrong), "");
}

TEST(SharedPlaces, AWriteToOneOtherRanksPlaceIsStillRefused) {
  PlanSet wrong = bound(*find("all_reduce/two_shot"), 3, sum_of(40));
  Plan& plan = wrong.plans[0];
  for (Op& op : plan.ops) {
    if (!shared_place_of(plan, op, 3)) continue;
    plan.operands[op.operands + 2] = plan.operands[op.operands + 1];
  }
  EXPECT_NE(proof_of(wrong).find("publishes"), std::string::npos) << proof_of(wrong);
}

}  // namespace
}  // namespace tutti::plan
