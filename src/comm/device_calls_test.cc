// Which algorithms streams of devices run, and that their plans are right, staged and direct.
#include "src/comm/device_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/plan/shared_places.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::comm {
namespace {

using plan::Lowering;
using plan::Placing;
using schedule::Collective;

// Small, so that small counts run in several slices.
constexpr exec::RingShape kRing = {.region_bytes = 4096, .lane_regions = 2, .scratch_bytes = 2048};

std::vector<plan::PlanSet> lower(const Lowering& lowering, types::ReduceOp op, uint64_t count,
                                 const plan::Tuning& tuning = device_tuning(kRing)) {
  Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
  EXPECT_TRUE(matches.ok()) << plan::print(lowering);
  for (plan::Match& match : matches.value()) {
    EXPECT_TRUE(plan::count_terms(match, *lowering.algorithm, lowering.parameters).ok());
  }
  std::vector<plan::PlanSet> sets;
  sets.push_back(plan::bind_all(matches.value(), {count, types::DataType::kFloat32, op}, tuning));
  return sets;
}

/// All that a communicator of so many ranks may run on its streams: what folds, or what copies.
template <class Check>
void for_each_lowering(int ranks, bool folds, plan::Mode mode, Check check) {
  for (const schedule::Algorithm& algorithm : device_algorithms(registry::algorithms(), ranks)) {
    if (schedule::reduces(algorithm.collective) != folds) continue;
    if (algorithm.collective == Collective::kBarrier) continue;
    for (const schedule::Fold fold : {schedule::Fold::kList, schedule::Fold::kTree}) {
      for (const Placing placing : {Placing::kSeparate, Placing::kInPlace}) {
        if (placing == Placing::kInPlace && !algorithm.in_place) continue;
        Lowering lowering;
        lowering.algorithm = &algorithm;
        lowering.parameters = {.ranks = ranks, .root = ranks - 1, .fold = fold};
        lowering.placing = placing;
        lowering.mode = mode;
        check(lowering);
      }
    }
  }
}

/// Frames that span the regions of a lane, as of calls that are very long.
plan::Tuning spanning_tuning() {
  plan::Tuning tuning = device_tuning(kRing);
  tuning.most_short_slices = 2;
  return tuning;
}

size_t prove(int ranks, bool folds, plan::Mode mode, std::vector<types::ReduceOp> operations) {
  size_t proved = 0;
  for_each_lowering(ranks, folds, mode, [&](const Lowering& lowering) {
    for (const types::ReduceOp op : operations) {
      for (const uint64_t count : {1, 37, 700, 5000}) {
        for (const plan::PlanSet& set : lower(lowering, op, count)) {
          for (const uint32_t frames : {1, 2}) {
            plan::VerifyPlanOptions options;
            options.frames_per_region = frames;
            options.in_one_queue = true;
            const Status status = plan::verify_plans(set, options);
            EXPECT_TRUE(status.ok())
                << plan::print(lowering) << " " << count << ": " << status.message();
          }
          ++proved;
        }
      }
    }
  });
  return proved;
}

class DevicePlans : public testing::TestWithParam<int> {};

TEST_P(DevicePlans, OfReductionsAreRight) {
  const std::vector<types::ReduceOp> operations = {types::ReduceOp::kSum, types::ReduceOp::kAvg};
  EXPECT_GT(prove(GetParam(), true, plan::Mode::kStaged, operations), 50u);
}

TEST_P(DevicePlans, OfDirectCallsAreRight) {
  for (const plan::Mode mode : {plan::Mode::kPullInputs, plan::Mode::kPull}) {
    const std::vector<types::ReduceOp> operations = {types::ReduceOp::kSum, types::ReduceOp::kAvg};
    EXPECT_GT(prove(GetParam(), true, mode, operations), 50u);
    EXPECT_GT(prove(GetParam(), false, mode, {types::ReduceOp::kSum}), 20u);
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, DevicePlans,
                         testing::Values(2, 3, testing_support::kSanitized ? 4 : 5));

/// Proves all plans of the collective that pull inputs, with these counts.
size_t prove_with_counts(Collective collective, bool folds, const std::vector<uint64_t>& counts) {
  const int ranks = static_cast<int>(counts.size());
  CountView view{.ranks = static_cast<uint32_t>(ranks)};
  (collective == Collective::kAllGather ? view.recv_counts : view.send_counts) = counts.data();
  size_t proved = 0;
  for_each_lowering(ranks, folds, plan::Mode::kPullInputs, [&](const Lowering& lowering) {
    if (lowering.algorithm->collective != collective) return;
    if (lowering.algorithm->needs_equal_counts) return;
    const bool nests = lowering.placing == Placing::kInPlace;
    if (collective == Collective::kAllGather && nests) return;
    const uint64_t longest = longest_of(view);
    std::vector<schedule::CountVectors> vectors;
    for (int rank = 0; rank < ranks; ++rank) vectors.push_back(vectors_of(view, rank, longest));
    const auto matches = plan::match_all(lowering);
    ASSERT_TRUE(matches.ok()) << plan::print(lowering);
    const plan::PlanSet set = plan::bind_all(
        matches.value(), std::move(vectors),
        {longest, types::DataType::kFloat32, types::ReduceOp::kSum}, device_tuning(kRing));
    plan::VerifyPlanOptions options;
    options.in_one_queue = true;
    const Status status = plan::verify_plans(set, options);
    EXPECT_TRUE(status.ok()) << plan::print(lowering) << ": " << status.message();
    ++proved;
  });
  return proved;
}

TEST(DirectPlansWithCounts, AreRight) {
  for (const std::vector<uint64_t>& counts :
       {std::vector<uint64_t>{37, 5000}, {1, 700, 5000, 36}, {5000, 0, 3, 4999, 1}}) {
    EXPECT_GT(prove_with_counts(Collective::kReduceScatter, true, counts), 1u);
    EXPECT_GT(prove_with_counts(Collective::kAllGather, false, counts), 0u);
  }
}

Status objection(Collective collective, const CountView& counts, bool in_place) {
  const Request request{
      .collective = collective, .type = types::DataType::kFloat32, .counts = &counts};
  return DevicePlaces::shape_of(request, in_place, static_cast<int>(counts.ranks), 1000).status();
}

TEST(CallsWithCounts, AreDirectWhereAllRanksKnowWhereInputsLie) {
  const std::vector<uint64_t> counts = {1, 700}, lacks = {0, 700}, shorts = {1, 9};
  const std::vector<uint64_t> packed = {0, 1}, gaps = {0, 2};
  EXPECT_TRUE(objection(Collective::kAllGather, {2, nullptr, nullptr, counts.data()}, false).ok());
  const Status nested =
      objection(Collective::kAllGather, {2, nullptr, nullptr, counts.data()}, true);
  EXPECT_NE(nested.message().find("in place"), std::string::npos) << nested.message();
  const Status none = objection(Collective::kAllGather, {2, nullptr, nullptr, lacks.data()}, false);
  EXPECT_NE(none.message().find("no input"), std::string::npos) << none.message();
  const Status brief =
      objection(Collective::kAllGather, {2, nullptr, nullptr, shorts.data()}, false);
  EXPECT_NE(brief.message().find("one frame"), std::string::npos) << brief.message();
  for (const bool in_place : {false, true}) {
    for (const std::vector<uint64_t>& some : {counts, lacks}) {
      EXPECT_TRUE(objection(Collective::kReduceScatter, {2, some.data()}, in_place).ok());
    }
    EXPECT_TRUE(
        objection(Collective::kReduceScatter, {2, counts.data(), packed.data()}, in_place).ok());
    const Status apart =
        objection(Collective::kReduceScatter, {2, counts.data(), gaps.data()}, in_place);
    EXPECT_NE(apart.message().find("gaps"), std::string::npos) << apart.message();
  }
  const Status hidden =
      objection(Collective::kAllToAll, {2, counts.data(), nullptr, counts.data()}, false);
  EXPECT_NE(hidden.message().find("not all ranks know"), std::string::npos) << hidden.message();
}

// Each frame waits until all have read the one before it in its lane.
TEST_P(DevicePlans, OfVeryLongCallsAreRight) {
  size_t proved = 0, refused = 0;
  for (const bool folds : {true, false}) {
    for_each_lowering(GetParam(), folds, plan::Mode::kStaged, [&](const Lowering& lowering) {
      const auto sets = lower(lowering, types::ReduceOp::kSum, 5000, spanning_tuning());
      for (const plan::PlanSet& set : sets) {
        if (set.plans[0].lanes[0].frame_bytes <= kRing.region_bytes) continue;
        EXPECT_LE(set.plans[0].lanes[0].frame_bytes, kRing.lane_regions * kRing.region_bytes);
        plan::VerifyPlanOptions options;
        options.regions_per_frame = kRing.lane_regions;
        options.frames_per_region = 1;
        options.in_one_queue = true;
        const Status status = plan::verify_plans(set, options);
        EXPECT_TRUE(status.ok()) << plan::print(lowering) << ": " << status.message();
        ++proved;
        options.walk.credit = false;
        if (!plan::verify_plans(set, options).ok()) ++refused;
      }
    });
  }
  EXPECT_GT(proved, 10u);
  EXPECT_GT(refused, 5u) << "most calls leave room for a rank that is early";
}

// A fold that does not wait for the peers' counters reads what is not there.
TEST(DevicePlansWithAFault, AreRefused) {
  size_t refused = 0;
  for_each_lowering(3, true, plan::Mode::kStaged, [&](const Lowering& lowering) {
    for (plan::PlanSet& set : lower(lowering, types::ReduceOp::kSum, 37)) {
      for (plan::Op& op : set.plans[2].ops) {
        if (op.code != plan::OpCode::kWait) continue;
        op.value = 0;
        break;
      }
      EXPECT_FALSE(plan::verify_plans(set).ok()) << plan::print(lowering);
      ++refused;
    }
  });
  EXPECT_GT(refused, 5u);
}

/// Plans of several slices that reduce and that copy, for `ranks`.
std::vector<plan::PlanSet> plans_in_turns(int ranks) {
  std::vector<plan::PlanSet> found;
  for (const bool folds : {false, true}) {
    for_each_lowering(ranks, folds, plan::Mode::kStaged, [&](const Lowering& lowering) {
      for (plan::PlanSet& set : lower(lowering, types::ReduceOp::kSum, 5000)) {
        if (set.plans[0].turns > 1) found.push_back(std::move(set));
      }
    });
  }
  return found;
}

// Nothing orders the lanes but that they begin behind what was before and end before what follows.
TEST(PlansInTurns, AreRefusedWhereLanesDoNotForkAndJoin) {
  plan::VerifyPlanOptions options;
  options.walk.orders = false;
  size_t refused = 0;
  for (const plan::PlanSet& set : plans_in_turns(3)) {
    EXPECT_FALSE(plan::verify_plans(set, options).ok());
    ++refused;
  }
  EXPECT_GT(refused, 10u);
}

/// A wait for what has long been, before rank 1's first lane tells that it has copied; false: it
/// has nothing to tell.
bool wait_in_vain(plan::Plan& plan) {
  const plan::LanePlan second = plan.lanes[1];
  const std::vector<plan::Op> ops(plan.ops.begin() + second.begin, plan.ops.begin() + second.end);
  if (ops.size() < 3 || ops[1].code != plan::OpCode::kMove) return false;
  const auto told = std::find_if(ops.begin(), ops.end(), [](const plan::Op& op) {
    return op.code != plan::OpCode::kCredit && op.code != plan::OpCode::kMove;
  });
  if (told->code != plan::OpCode::kSignal) return false;
  plan::Op wait;
  wait.code = plan::OpCode::kWait;
  wait.peer = 0;
  plan.lanes[0].begin = static_cast<uint32_t>(plan.ops.size());
  plan.ops.insert(plan.ops.end(), ops.begin(), told);
  plan.ops.push_back(wait);
  plan.ops.insert(plan.ops.end(), told, ops.end());
  plan.lanes[0].end = static_cast<uint32_t>(plan.ops.size());
  return true;
}

// A rank gives up a turn which the others do not: with a queue for each lane all come to their
// ends, in one queue they wait for each other.
TEST(PlansInTurns, AreRefusedWhereOneQueueCannotRunThem) {
  size_t refused = 0;
  for (plan::PlanSet& set : plans_in_turns(2)) {
    if (!wait_in_vain(set.plans[1])) continue;
    const Status status = plan::verify_plans(set);
    EXPECT_TRUE(status.ok()) << status.message();
    plan::VerifyPlanOptions options;
    options.in_one_queue = true;
    if (!plan::verify_plans(set, options).ok()) ++refused;
  }
  EXPECT_GT(refused, 0u);
}

TEST(PlansInTurns, HaveTheSameSlicesAndNoMoreScratchMemoryThanThereIs) {
  for (const int ranks : {2, 3}) {
    for (const plan::PlanSet& set : plans_in_turns(ranks)) {
      for (const plan::Plan& plan : set.plans) {
        EXPECT_EQ(plan.lanes.size(), exec::kDeviceLanes);
        EXPECT_EQ(plan.slices, set.plans[0].slices);
        EXPECT_LE(plan::scratch_copies(plan) * plan.scratch_bytes, kRing.scratch_bytes);
      }
    }
  }
}

TEST(PlansInTurns, AreNoneOfCallsThatFitOneFrame) {
  for_each_lowering(4, true, plan::Mode::kStaged, [](const Lowering& lowering) {
    for (const plan::PlanSet& set : lower(lowering, types::ReduceOp::kSum, 37)) {
      for (const plan::Plan& plan : set.plans) EXPECT_EQ(plan.lanes.size(), 1u);
    }
  });
}

/// How many operands of all ranks are inputs of peers.
size_t pulls_in(const plan::PlanSet& set) {
  size_t pulls = 0;
  for (const plan::Plan& plan : set.plans) {
    for (const plan::Operand& operand : plan.operands) {
      if (operand.base < plan::register_of(plan::Base::kFixed)) continue;
      if (plan::peer_base_of(operand.base) == plan::PeerBase::kInput) ++pulls;
    }
  }
  return pulls;
}

// Their callers write to buffers that peers may not have read yet.
TEST(DirectPlansWithoutAWaitForReaders, AreRefused) {
  size_t refused = 0;
  for_each_lowering(3, false, plan::Mode::kPullInputs, [&](const Lowering& lowering) {
    for (plan::PlanSet& set : lower(lowering, types::ReduceOp::kSum, 37)) {
      if (pulls_in(set) == 0) continue;
      for (plan::Plan& plan : set.plans) plan.epilogue.clear();
      EXPECT_FALSE(plan::verify_plans(set).ok()) << plan::print(lowering);
      ++refused;
    }
  });
  EXPECT_GT(refused, 4u);
}

TEST(DirectPlans, StageNothingAndRunInOneSlice) {
  for (const Placing placing : {Placing::kSeparate, Placing::kInPlace}) {
    for (const schedule::Algorithm& algorithm : device_algorithms(registry::algorithms(), 4)) {
      if (schedule::reduces(algorithm.collective)) continue;
      if (algorithm.collective == Collective::kBarrier) continue;
      if (placing == Placing::kInPlace && algorithm.collective == Collective::kAllToAll) continue;
      Lowering lowering;
      lowering.algorithm = &algorithm;
      lowering.parameters = {.ranks = 4, .root = 1};
      lowering.placing = placing;
      lowering.mode = plan::Mode::kPullInputs;
      for (const plan::PlanSet& set : lower(lowering, types::ReduceOp::kSum, 100'000)) {
        EXPECT_GT(pulls_in(set), 2u) << algorithm.name;
        for (const plan::Plan& plan : set.plans) {
          EXPECT_EQ(plan.slices, 1u);
          EXPECT_EQ(plan.lanes[0].frame_bytes, 0u);
          EXPECT_TRUE(plan.prologue.empty());
        }
      }
    }
  }
}

TEST(DeviceAlgorithms, HaveOneLaneAndNoMoreScratchMemoryThanTheyStage) {
  for (const int ranks : {2, 4, 8}) {
    for (const schedule::Algorithm& algorithm : device_algorithms(registry::algorithms(), ranks)) {
      EXPECT_EQ(algorithm.max_lanes, 1);
      const schedule::Parameters parameters{.ranks = ranks};
      const schedule::Cost cost = algorithm.cost(parameters);
      EXPECT_LE(static_cast<double>(cost.scratch.num) / static_cast<double>(cost.scratch.den),
                static_cast<double>(cost.published.num) / static_cast<double>(cost.published.den))
          << algorithm.name;
    }
  }
}

std::string choice(Collective collective, int ranks, uint64_t count, bool deterministic = false) {
  const auto algorithms = device_algorithms(registry::algorithms(), ranks);
  PlannerOptions options;
  PlanEngine device;
  device.algorithms = algorithms;
  options.group = group::group_on_hosts(std::vector<int>(static_cast<size_t>(ranks), 0));
  device.tuning = device_tuning({12 << 20, 2, 6 << 20});
  device.link = select::link_of(select::DeviceCosts(), select::DeviceWay::kDirect);
  Planner planner(std::move(options));
  EnginePlans& plans = planner.add(std::move(device));
  CallOptions wanted;
  wanted.deterministic = deterministic;
  planner.set_options(wanted);
  const Request request{
      .collective = collective, .type = types::DataType::kFloat32, .count = count};
  const auto prepared = plans.prepare(request, false, {});
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  return prepared.ok() ? prepared.value()->plan.algorithm : "";
}

TEST(DeviceAlgorithms, OneShotIsForShortAllReducesAndTwoShotForLongOnes) {
  for (const bool deterministic : {false, true}) {
    EXPECT_EQ(choice(Collective::kAllReduce, 8, 1000, deterministic), "one_shot");
    EXPECT_EQ(choice(Collective::kAllReduce, 8, 16 << 20, deterministic), "two_shot");
    EXPECT_EQ(choice(Collective::kReduceScatter, 8, 1 << 20, deterministic), "direct");
    EXPECT_EQ(choice(Collective::kReduce, 8, 1000, deterministic), "direct");
    EXPECT_EQ(choice(Collective::kReduce, 8, 16 << 20, deterministic), "two_shot");
  }
  EXPECT_EQ(choice(Collective::kAllReduce, 2, 16 << 20), "one_shot");
}

/// Whether the plan of an all_reduce of 64 MiB among 8 has shared places.
bool shares(const SharedPlaces& places, bool may, plan::Mode mode = plan::Mode::kStaged) {
  const auto algorithms = device_algorithms(registry::algorithms(), 8);
  PlannerOptions options;
  options.group = group::group_on_hosts(std::vector<int>(8, 0));
  PlanEngine device;
  device.algorithms = algorithms;
  device.tuning = device_tuning({12 << 20, 2, 6 << 20});
  device.link = select::link_of(select::DeviceCosts(), select::DeviceWay::kDirect);
  device.shared_places = places;
  device.shared_places->may = [may](const Request&) { return may; };
  Planner planner(std::move(options));
  EnginePlans& plans = planner.add(std::move(device));
  const Request request{
      .collective = Collective::kAllReduce, .type = types::DataType::kFloat32, .count = 16 << 20};
  const auto prepared = plans.prepare(request, false, {mode, false});
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  if (!prepared.ok()) return false;
  const plan::Plan& plan = prepared.value()->plan;
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& op) {
    return plan::shared_place_of(plan, op, 8).has_value();
  });
}

TEST(DeviceAlgorithms, ShareTheirPlacesWhereThatIsPredictedToTakeLess) {
  select::DeviceCosts dear;
  dear.multicast_us_per_mb = 100;
  SharedPlaces places;
  places.can = [](const schedule::Algorithm& one) { return one.name == "two_shot"; };
  places.link = select::switch_link_of({});
  EXPECT_TRUE(shares(places, true));
  EXPECT_FALSE(shares(places, false));
  EXPECT_FALSE(shares(places, true, plan::Mode::kDirect));
  places.link = select::switch_link_of(dear);
  EXPECT_FALSE(shares(places, true));
  places.must = true;
  EXPECT_TRUE(shares(places, true));
}

}  // namespace
}  // namespace tutti::comm
