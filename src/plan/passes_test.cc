#include "src/plan/passes.h"

#include <gtest/gtest.h>

#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"

namespace tutti::plan {
namespace {

const schedule::Algorithm* find(const char* name) {
  return examples::find(registry::algorithms(), name);
}

constexpr Operand kIn{register_of(Base::kInput)};
constexpr Operand kOut{register_of(Base::kOutput)};
constexpr Operand kSlot{register_of(PeerBase::kSlot, 0), Shift::kFrame};
constexpr Operand kPeerOut{register_of(PeerBase::kOutput, 1)};

void add_move(Plan& plan, std::vector<Operand> targets, std::vector<Operand> sources,
              uint64_t length) {
  Op op;
  op.target_count = static_cast<uint16_t>(targets.size());
  op.source_count = static_cast<uint16_t>(sources.size());
  op.operands = static_cast<uint32_t>(plan.operands.size());
  op.length = length;
  plan.operands.insert(plan.operands.end(), targets.begin(), targets.end());
  plan.operands.insert(plan.operands.end(), sources.begin(), sources.end());
  plan.ops.push_back(op);
  plan.lanes.resize(1);
  plan.lanes[0].end = static_cast<uint32_t>(plan.ops.size());
}

TEST(ForwardStores, StoresToAllTargetsAtOnce) {
  Plan plan;
  add_move(plan, {kOut}, {kIn, kSlot}, 8);
  add_move(plan, {kSlot, kPeerOut}, {kOut}, 8);
  ASSERT_TRUE(forward_stores(plan));
  ASSERT_EQ(plan.ops.size(), 1u);
  EXPECT_EQ(plan.lanes[0].end, 1u);
  const Op& op = plan.ops[0];
  EXPECT_EQ(op.target_count, 3);
  EXPECT_EQ(op.source_count, 2);
  const Operand expected[] = {kOut, kSlot, kPeerOut, kIn, kSlot};
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(plan.operands[op.operands + i], expected[i]) << i;
}

TEST(ForwardStores, LeavesEverythingElse) {
  const auto changes = [](auto write) {
    Plan plan;
    write(plan);
    return forward_stores(plan);
  };
  EXPECT_FALSE(changes([](Plan& plan) {  // another length
    add_move(plan, {kOut}, {kIn}, 8);
    add_move(plan, {kSlot}, {kOut}, 4);
  }));
  EXPECT_FALSE(changes([](Plan& plan) {  // another source
    add_move(plan, {kOut}, {kIn}, 8);
    add_move(plan, {kSlot}, {kIn}, 8);
  }));
  EXPECT_FALSE(changes([](Plan& plan) {  // not a copy
    add_move(plan, {kOut}, {kIn}, 8);
    add_move(plan, {kSlot}, {kOut, kIn}, 8);
  }));
  EXPECT_FALSE(changes([](Plan& plan) {  // something between
    add_move(plan, {kOut}, {kIn}, 8);
    plan.ops.push_back({.code = OpCode::kCredit});
    add_move(plan, {kSlot}, {kOut}, 8);
  }));
  EXPECT_FALSE(changes([](Plan& plan) {  // one target more than a move may have
    add_move(plan, {kOut}, {kIn}, 8);
    add_move(plan, std::vector<Operand>(kMaxTargets, kSlot), {kOut}, 8);
  }));
  EXPECT_FALSE(changes([](Plan& plan) {  // lanes count each other's micro-operations
    add_move(plan, {kOut}, {kIn}, 8);
    add_move(plan, {kSlot}, {kOut}, 8);
    plan.lanes.resize(2);
  }));
}

TEST(ForwardStores, KeepsPlansRight) {
  const Lowering lowering{
      find("all_reduce/two_shot"), {.ranks = 4}, Spread::kOneDomain, Mode::kDirect};
  const std::vector<Match> matches = match_all(lowering).value();
  for (bool fuse : {false, true}) {
    Tuning tuning = small_tuning(false);
    tuning.fuse = fuse;
    const PlanSet set = bind_all(matches, {40}, tuning);
    EXPECT_EQ(set.plans[0].passes.find("store forwarding") != std::string::npos, fuse);
    const Status status = verify_plans(set);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(ScaleContributions, MarksEveryRawContributionOnce) {
  const Lowering lowering{find("all_reduce/ring"), {.ranks = 3}};
  std::vector<Match> matches = match_all(lowering).value();
  ASSERT_TRUE(count_terms(matches[0], *lowering.algorithm, lowering.parameters).ok());
  const BindRequest request{6, types::DataType::kFloat32, types::ReduceOp::kAvg};
  const Plan plan = bind(matches[0], request, {});
  EXPECT_DOUBLE_EQ(plan.scale, 1.0 / 3);
  int scaled = 0;
  for (const Op& op : plan.ops) {
    if (op.mask == kNoMask) continue;
    scaled += __builtin_popcountll(plan.masks[op.mask]);
  }
  // Of the first fold both sources are raw; of the second one only its own.
  EXPECT_EQ(scaled, 3);
}

TEST(ScaleContributions, DividesIntegersWhereTheyAreComplete) {
  const Lowering lowering{find("all_reduce/ring"), {.ranks = 3}};
  std::vector<Match> matches = match_all(lowering).value();
  ASSERT_TRUE(count_terms(matches[0], *lowering.algorithm, lowering.parameters).ok());
  const BindRequest request{6, types::DataType::kInt32, types::ReduceOp::kAvg};
  const Plan plan = bind(matches[0], request, {});
  EXPECT_EQ(plan.divisor, 3);
  int divided = 0;
  for (const Op& op : plan.ops) divided += op.divide ? 1 : 0;
  EXPECT_EQ(divided, 1);
}

using Of = UserStores::Of;

std::vector<bool> bypassing(const Plan& given, Of of) {
  Plan plan = given;
  const bool any = choose_stores(plan, 0, {of, types::StoreHint::kStreaming});
  std::vector<bool> found;
  for (const Op& op : plan.ops) found.push_back(op.store == types::StoreHint::kStreaming);
  EXPECT_EQ(any, std::ranges::count(found, true) > 0);
  return found;
}

TEST(ChooseStores, FinalCopiesAreByVectorsIfAsked) {
  Plan plan;
  add_move(plan, {kOut}, {kSlot}, 8);
  add_move(plan, {kSlot}, {kIn}, 8);
  EXPECT_TRUE(choose_stores(plan, 0, {Of::kFinalCopies, types::StoreHint::kVectors}));
  EXPECT_EQ(plan.ops[0].store, types::StoreHint::kVectors);
  EXPECT_EQ(plan.ops[1].store, types::StoreHint::kCached);
}

TEST(ChooseStores, FinalCopiesBypassTheCacheIfAsked) {
  using Found = std::vector<bool>;
  Plan plan;
  add_move(plan, {kOut}, {kSlot}, 8);
  add_move(plan, {kOut}, {kIn, kSlot}, 8);
  add_move(plan, {kSlot}, {kIn}, 8);
  EXPECT_EQ(bypassing(plan, Of::kNone), (Found{false, false, false}));
  EXPECT_EQ(bypassing(plan, Of::kFinalCopies), (Found{true, false, false}));
  EXPECT_EQ(bypassing(plan, Of::kAll), (Found{true, true, false}));
  add_move(plan, {kSlot}, {kOut}, 8);  // passes on what it has received
  EXPECT_EQ(bypassing(plan, Of::kFinalCopies), (Found{false, false, false, false}));
  EXPECT_EQ(bypassing(plan, Of::kAll), (Found{true, true, false, false}));
}

// By the name of the pass.
TEST(ChooseStores, LongStagedPipelinesHaveKernelsOfTheirOwn) {
  Tuning tuning;
  const auto passes = [&](const char* name, Mode mode, uint64_t bytes) {
    const Lowering lowering{find(name), {.ranks = 4}, Spread::kOneDomain, mode};
    const Match match = match_all(lowering).value()[1];
    return bind(match, {bytes / 4}, tuning).passes;
  };
  const std::string vectors = "copies by vectors", stores = "streaming stores";
  const uint64_t bytes = tuning.long_pipeline_bytes;
  const uint64_t longer = tuning.pipeline_streaming_store_bytes;
  EXPECT_EQ(passes("broadcast/publish_once", Mode::kStaged, bytes - 4), "");
  EXPECT_EQ(passes("broadcast/publish_once", Mode::kStaged, bytes), vectors);
  EXPECT_EQ(passes("broadcast/publish_once", Mode::kStaged, longer - 4), vectors);
  EXPECT_EQ(passes("broadcast/publish_once", Mode::kStaged, longer), stores);
  EXPECT_EQ(passes("broadcast/chain", Mode::kStaged, longer), "") << "it sends what it received";
  EXPECT_EQ(passes("reduce/binomial", Mode::kStaged, longer), "") << "only the root has an output";
  EXPECT_EQ(passes("all_reduce/ring", Mode::kStaged, longer), "") << "they wait in a circle";
  EXPECT_EQ(passes("scatter/direct", Mode::kStaged, longer), stores);
  EXPECT_EQ(passes("scatter/direct", Mode::kStaged, longer - 4), vectors);
  const uint64_t direct = tuning.streaming_store_bytes;
  const auto streams = [&](uint64_t of) {
    return passes("all_reduce/one_shot", Mode::kDirect, of).find(stores) != std::string::npos;
  };
  EXPECT_TRUE(streams(direct));
  EXPECT_FALSE(streams(direct - 4));
}

}  // namespace
}  // namespace tutti::plan
