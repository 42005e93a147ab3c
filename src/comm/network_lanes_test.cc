// The plans of calls on devices of several hosts are right: values, races and progress, in one
// hardware queue of each rank.
#include "src/comm/network_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/comm/network_plans_test.h"
#include "src/exec/bounce_buffer.h"
#include "src/registry/algorithms.h"
#include "src/select/tree_of.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::comm {
namespace {

using plan::Lowering;
using plan::Spread;
using schedule::Collective;

std::vector<plan::PlanSet> lower(const Lowering& lowering, uint64_t count) {
  Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
  EXPECT_TRUE(matches.ok()) << plan::print(lowering);
  for (plan::Match& match : matches.value()) {
    EXPECT_TRUE(plan::count_terms(match, *lowering.algorithm, lowering.parameters).ok());
  }
  std::vector<plan::PlanSet> sets;
  plan::BindRequest request{count, types::DataType::kFloat32, types::ReduceOp::kSum};
  sets.push_back(plan::bind_all(matches.value(), request, small_network_tuning()));
  request.far_slices = 1;  // as short as frames and scratch memory want it
  sets.push_back(plan::bind_all(matches.value(), request, small_network_tuning()));
  return sets;
}

template <class Check>
void for_each_lowering(int ranks, Spread spread, Check check) {
  const group::GroupPointer group = plan::group_of(ranks, spread);
  for (const schedule::Algorithm& algorithm : network_algorithms(registry::algorithms(), *group)) {
    for (const plan::Placing placing : {plan::Placing::kSeparate, plan::Placing::kInPlace}) {
      if (placing == plan::Placing::kInPlace && !algorithm.in_place) continue;
      for (const int root : {0, ranks - 1}) {
        if (root > 0 && !schedule::traits_of(algorithm.collective).rooted()) continue;
        Lowering lowering;
        lowering.algorithm = &algorithm;
        lowering.parameters = {.ranks = ranks, .root = root, .tree = select::tree_of(*group)};
        lowering.placing = placing;
        lowering.spread = spread;
        check(lowering);
      }
    }
  }
}

class NetworkPlansOfRanks : public testing::TestWithParam<int> {};

TEST_P(NetworkPlansOfRanks, AreRightInOneQueue) {
  size_t in_turns = 0;
  for (const Spread spread : {Spread::kTwoDomains, Spread::kAllApart}) {
    for_each_lowering(GetParam(), spread, [&](const Lowering& lowering) {
      for (const uint64_t count : {1, 37, 2500}) {
        for (const plan::PlanSet& set : lower(lowering, count)) {
          if (set.plans[0].turns > 1) ++in_turns;
          plan::VerifyPlanOptions options;
          options.in_one_queue = true;
          const Status status = plan::verify_plans(set, options);
          EXPECT_TRUE(status.ok())
              << plan::print(lowering) << " " << count << ": " << status.message();
        }
      }
    });
  }
  EXPECT_GT(in_turns, 20u);
}
INSTANTIATE_TEST_SUITE_P(Ranks, NetworkPlansOfRanks,
                         testing::Values(2, 3, 4, testing_support::kSanitized ? 5 : 8));

// A plan with one wait for a message less is found to be wrong.
TEST(NetworkPlans, AreRefusedWhereAMessageIsNotAwaited) {
  size_t refused = 0, faults = 0;
  for_each_lowering(4, Spread::kTwoDomains, [&](const Lowering& lowering) {
    plan::PlanSet set = lower(lowering, 2500)[0];
    const auto awaits = [](const plan::Op& op) { return op.code == plan::OpCode::kStreamArrived; };
    for (plan::Plan& plan : set.plans) {
      const auto found = std::find_if(plan.ops.begin(), plan.ops.end(), awaits);
      if (found == plan.ops.end()) continue;
      ++faults;
      *found = {.code = plan::OpCode::kSignal, .value = 0};
      break;
    }
    if (!plan::verify_plans(set, {.in_one_queue = true}).ok()) ++refused;
  });
  EXPECT_GT(faults, 20u);
  EXPECT_EQ(refused, faults);
}

TEST(NetworkPlans, HaveLandingZonesForEachLane) {
  for_each_lowering(4, Spread::kTwoDomains, [&](const Lowering& lowering) {
    const std::vector<plan::PlanSet> sets = lower(lowering, 2500);
    for (const plan::Plan& plan : sets[0].plans) {
      if (plan.turns == 1) continue;
      EXPECT_EQ(plan::all_landing_bytes(plan), plan.turns * plan.landing_bytes);
      for (const plan::Op& op : plan.ops) {
        if (op.code != plan::OpCode::kStreamReceive) continue;
        for (uint32_t i = 0; i < op.target_count; ++i) {
          const uint32_t base = plan.operands[op.operands + i].base;
          EXPECT_EQ(base, plan::register_of(plan::Base::kLanding)) << plan::print(lowering);
        }
      }
    }
  });
}

// The layout of a bounce buffer has room for every piece, and no two pieces have a byte in common.
TEST(BounceLayout, HasRoomForEveryPiece) {
  for_each_lowering(4, Spread::kTwoDomains, [&](const Lowering& lowering) {
    const std::vector<plan::PlanSet> sets = lower(lowering, 2500);
    for (const plan::Plan& plan : sets[0].plans) {
      const exec::BounceLayout layout(plan);
      uint64_t before = plan::all_landing_bytes(plan);
      for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
        for (uint32_t i = plan.lanes[lane].begin; i < plan.lanes[lane].end; ++i) {
          const plan::Op& op = plan.ops[i];
          if (op.code != plan::OpCode::kStreamSend) continue;
          uint64_t bytes = 0;
          for (uint32_t k = 0; k < op.source_count; ++k) {
            const uint64_t length = plan.lengths[op.lengths + k];
            bytes += plan::piece_of(plan, lane, 0, length).length * plan.element_bytes;
          }
          if (!layout.repeats(i)) {
            EXPECT_GE(layout.sent(lane, i), before) << plan::print(lowering);
          }
          before = std::max(before, layout.sent(lane, i) + bytes);
          EXPECT_LE(before, layout.bytes()) << plan::print(lowering);
        }
      }
    }
  });
}

TEST(NetworkAlgorithms, AreThereForEveryCollective) {
  for (const int ranks : {2, 3, 4, 8}) {
    std::set<Collective> known;
    std::string names;
    for_each_lowering(ranks, Spread::kTwoDomains, [&](const Lowering& lowering) {
      known.insert(lowering.algorithm->collective);
      names += plan::print(lowering) + "\n";
    });
    EXPECT_EQ(known.size(), static_cast<size_t>(schedule::kCollectives) - 1) << names;
  }
}

}  // namespace
}  // namespace tutti::comm
