// Plans of calls between hosts whose ranks of a host do their part in level calls are right:
// values, races and progress, in one hardware queue of each rank, whatever the algorithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/comm/level_calls.h"
#include "src/comm/network_plans_test.h"
#include "src/registry/algorithms.h"
#include "src/select/tree_of.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::comm {
namespace {

using plan::LevelWhole;
using plan::Lowering;
using plan::Placing;
using plan::Spread;
using schedule::Collective;

plan::PlanSet lower(const std::vector<plan::Match>& matches, uint64_t count,
                    plan::Tuning tuning = small_network_tuning()) {
  const plan::BindRequest request{count, types::DataType::kFloat32, types::ReduceOp::kSum};
  return plan::bind_all(matches, request, tuning);
}

/// A contribution is scaled once, by the library or by a fold between hosts.
plan::PlanSet averaged(const Lowering& lowering, std::vector<plan::Match> matches) {
  for (plan::Match& match : matches) {
    EXPECT_TRUE(plan::count_terms(match, *lowering.algorithm, lowering.parameters).ok());
  }
  const plan::BindRequest request{300, types::DataType::kFloat32, types::ReduceOp::kAvg};
  return plan::bind_all(matches, request, small_network_tuning());
}

/// The matches of every algorithm that level calls can do.
template <class Check>
void for_each_match(int ranks, Spread spread, Check check) {
  const group::GroupPointer group = plan::group_of(ranks, spread);
  const auto algorithms =
      level_algorithms(network_algorithms(registry::algorithms(), *group), group);
  for (const schedule::Algorithm& algorithm : algorithms) {
    for (const Placing placing : {Placing::kSeparate, Placing::kInPlace, Placing::kMixed}) {
      if (placing != Placing::kSeparate && !algorithm.in_place) continue;
      for (const int root : {0, ranks - 1}) {
        if (root > 0 && !schedule::traits_of(algorithm.collective).rooted()) continue;
        Lowering lowering;
        lowering.algorithm = &algorithm;
        lowering.parameters = {.ranks = ranks, .root = root, .tree = select::tree_of(*group)};
        lowering.placing = placing;
        lowering.spread = spread;
        lowering.level_calls = true;
        const Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
        if (matches.ok()) {
          check(lowering, matches.value());
        } else {
          EXPECT_EQ(matches.status().code(), Code::kUnsupported) << matches.status().message();
        }
      }
    }
  }
}

size_t level_calls_of(const plan::PlanSet& set) {
  size_t calls = 0;
  for (const plan::Plan& plan : set.plans) calls += plan.level_calls.size();
  return calls;
}

class LevelPlansOfRanks : public testing::TestWithParam<int> {};

TEST_P(LevelPlansOfRanks, AreRightInOneQueue) {
  size_t in_turns = 0;
  for (const Spread spread : {Spread::kTwoDomains, Spread::kTwoRegions}) {
    for_each_match(GetParam(), spread, [&](const Lowering& lowering, const auto& matches) {
      for (const uint64_t count : {1, 37, 2500}) {
        const plan::PlanSet set = lower(matches, count);
        if (set.plans[0].turns > 1 && level_calls_of(set) > 0) ++in_turns;
        const Status status = plan::verify_plans(set, {.in_one_queue = true});
        EXPECT_TRUE(status.ok()) << plan::print(lowering) << " " << count << ": "
                                 << status.message();
      }
      if (!schedule::reduces(lowering.algorithm->collective)) return;
      const Status average =
          plan::verify_plans(averaged(lowering, matches), {.in_one_queue = true});
      EXPECT_TRUE(average.ok()) << plan::print(lowering) << ": " << average.message();
    });
  }
  EXPECT_TRUE(in_turns > 5 || GetParam() < 4) << in_turns;
}
INSTANTIATE_TEST_SUITE_P(Ranks, LevelPlansOfRanks,
                         testing::Values(2, 3, 4, 5, testing_support::kSanitized ? 6 : 8));

TEST(LevelPlans, AreThereForTheCollectivesThatAreMostUsed) {
  std::map<Collective, std::set<std::string>> known;
  for_each_match(8, Spread::kTwoDomains, [&](const Lowering& lowering, const auto& matches) {
    if (level_calls_of(lower(matches, 64)) == 0) return;
    known[lowering.algorithm->collective].insert(std::string(lowering.algorithm->name));
  });
  for (const Collective one : {Collective::kAllReduce, Collective::kReduceScatter,
                               Collective::kAllGather, Collective::kBroadcast}) {
    EXPECT_FALSE(known[one].empty()) << schedule::name_of(one);
  }
}

// No micro-operation of such a plan touches another rank's memory, and nothing is staged.
TEST(LevelPlans, LeaveNothingToStreamsWithinAHost) {
  for_each_match(8, Spread::kTwoDomains, [&](const Lowering& lowering, const auto& matches) {
    for (const plan::Plan& plan : lower(matches, 2500).plans) {
      for (const plan::Op& op : plan.ops) {
        EXPECT_NE(op.code, plan::OpCode::kWait) << plan::print(lowering);
      }
      for (const plan::Operand& operand : plan.operands) {
        EXPECT_LT(operand.base, plan::register_of(plan::Base::kFixed)) << plan::print(lowering);
      }
    }
  });
}

// An all_reduce of one slice is a reduce_scatter and an all_gather of the library.
TEST(LevelPlans, AreWholeCallsWhereBlocksLieInOrder) {
  size_t whole = 0;
  for_each_match(8, Spread::kTwoDomains, [&](const Lowering& lowering, const auto& matches) {
    if (lowering.algorithm->name != "hierarchical_direct") return;
    if (lowering.algorithm->collective != Collective::kAllReduce) return;
    for (const plan::Plan& plan : lower(matches, 64).plans) {
      ASSERT_EQ(plan.level_calls.size(), 2u) << plan::print(lowering);
      EXPECT_EQ(plan.level_calls[0].whole, LevelWhole::kReduceScatter);
      EXPECT_EQ(plan.level_calls[1].whole, LevelWhole::kAllGather);
      ++whole;
    }
    for (const plan::Plan& plan : lower(matches, 63).plans) {
      EXPECT_EQ(plan.level_calls[0].whole, LevelWhole::kNone) << "blocks are not alike";
    }
  });
  EXPECT_GT(whole, 0u);
}

/// The plans of an all_reduce in slices that take turns.
plan::PlanSet all_reduce() {
  plan::PlanSet found;
  for_each_match(4, Spread::kTwoDomains, [&](const Lowering& lowering, const auto& matches) {
    const bool wanted = lowering.algorithm->name == "hierarchical_direct" &&
                        lowering.algorithm->collective == Collective::kAllReduce &&
                        lowering.placing == Placing::kSeparate;
    if (wanted) found = lower(matches, 2500);
  });
  return found;
}

void expect_refused(const plan::PlanSet& set, const std::string& why) {
  const Status status = plan::verify_plans(set, {.in_one_queue = true});
  EXPECT_FALSE(status.ok()) << why;
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

TEST(LevelPlans, AreRefusedWhereTheyAreWrong) {
  const plan::PlanSet right = all_reduce();
  ASSERT_TRUE(plan::verify_plans(right, {.in_one_queue = true}).ok());
  ASSERT_GT(right.plans[0].turns, 1u);
  {
    plan::PlanSet set = right;  // a rank brings a part for another rank twice
    set.plans[1].level_rows[0].source = set.plans[1].level_rows[1].source;
    expect_refused(set, "returns from call");
  }
  {
    plan::PlanSet set = right;  // a row is missing on one rank
    --set.plans[1].level_calls[1].rows;
    expect_refused(set, "");
  }
  {
    plan::PlanSet set = right;  // one rank makes its calls in another order
    for (plan::Op& op : set.plans[1].ops) {
      if (op.code == plan::OpCode::kLevel) op.value = 1 - op.value;
    }
    expect_refused(set, "another level call");
  }
  {
    plan::PlanSet set = right;  // a rank does not say that it has come
    for (plan::Op& op : set.plans[0].ops) {
      if (op.code == plan::OpCode::kSignal && op.value == 1) op.value = 0;
    }
    expect_refused(set, "without having said so");
  }
  {
    plan::PlanSet set = right;  // what a row gets is another row's part
    plan::LevelRow& row = set.plans[0].level_rows[0];
    row.target = set.plans[0].level_rows[1].source;
    expect_refused(set, "another row of it reads");
  }
  {
    plan::PlanSet set = right;  // what comes from the other host is not awaited
    for (plan::Op& op : set.plans[2].ops) {
      if (op.code == plan::OpCode::kStreamArrived) op = {.code = plan::OpCode::kSignal};
    }
    expect_refused(set, "");
  }
}

}  // namespace
}  // namespace tutti::comm
