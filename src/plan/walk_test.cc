// The walk and its machines: every registered algorithm gives the right results on machines that
// have nothing in common with the host's, and a walk that breaks a rule is found out.
#include "src/plan/walk.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "src/plan/walk_machines_test.h"

namespace tutti::plan::machines {
namespace {

// Larger groups: slow_walk_test.cc.
INSTANTIATE_TEST_SUITE_P(Ranks, Machines, testing::Values(2, 3, 4));

bool is_split_easily(const PlanSet& set) {
  for (const Plan& plan : set.plans) {
    if (plan.lanes.size() < 2 || !plan.prologue.empty()) return false;
    for (const Op& op : plan.ops) {
      if (op.code == OpCode::kAfter || op.code == OpCode::kStreamSent) return false;
    }
  }
  return true;
}

// Lane 1 belongs to another engine: two walks of one plan that share nothing but the counters.
TEST(Walk, LanesOfTwoEnginesMeetByTheCountersAlone) {
  std::mt19937 random(3);
  int split = 0;
  each_world(4, [&](const Lowering& lowering, const PlanSet& given) {
    if (!is_split_easily(given)) return;
    PlanSet set = given;
    for (Plan& plan : set.plans) plan.lanes[1].engine = static_cast<Engine>(1);
    const Status proof = verify_plans(set);
    EXPECT_TRUE(proof.ok()) << print(lowering) << ": " << proof.message();
    World world(lowering, set);
    const Appended<Enqueuer> appended(world, {Engine::kHost, static_cast<Engine>(1)});
    EXPECT_TRUE(appended.complete());
    EXPECT_TRUE(execute(appended.queues(), random)) << print(lowering);
    EXPECT_EQ(world.check(), "") << print(lowering);
    ++split;
  });
  EXPECT_GT(split, 10);
}

TEST(Walk, AStepCannotWaitForAStepOfAnotherEngine) {
  const auto algorithms = registry::algorithms();
  const Lowering lowering{examples::find(algorithms, "all_reduce/double_binary_tree"),
                          {.ranks = 4, .lanes = 2}};
  PlanSet set = examples::lower(lowering, 40, false);
  ASSERT_TRUE(verify_plans(set).ok());
  for (Plan& plan : set.plans) plan.lanes[1].engine = static_cast<Engine>(1);
  const bool waits =
      std::ranges::any_of(set.plans[0].ops, [](const Op& op) { return op.code == OpCode::kAfter; });
  ASSERT_TRUE(waits);
  EXPECT_NE(verify_plans(set).message().find("another engine's lane"), std::string::npos);
}

/// All-gather of one rank by way of a scratch block: lane 0 fills it, lane 1 empties it.
schedule::Algorithm by_scratch() {
  using namespace schedule;
  Algorithm algorithm = examples::publish_everywhere();
  algorithm.name = "by_scratch";
  algorithm.shape = [](const Parameters& p) {
    Shape shape;
    shape.collective = Collective::kAllGather;
    shape.ranks = p.ranks;
    shape.lanes = 2;
    shape.input = Partition::equal(1);
    shape.output = Partition::equal(1);
    return shape;
  };
  algorithm.schedule = [](const Parameters&, int rank) {
    Builder builder(rank);
    const Block between = builder.scratch(input(0));
    const StepIndex filled = builder.copy(between, input(0));
    builder.lane(1);
    builder.after(builder.copy(output(0), between), filled);
    return std::move(builder).finish();
  };
  return algorithm;
}

// A lane that runs ahead fills the scratch memory that another one still empties.
TEST(Walk, ALaneThatRunsAheadIsRefused) {
  const schedule::Algorithm algorithm = by_scratch();
  const Lowering lowering{&algorithm, {.ranks = 1, .lanes = 2}};
  const PlanSet set = examples::lower(lowering, 1000, false);
  ASSERT_EQ(set.plans[0].lanes.size(), 2u);
  ASSERT_GT(set.plans[0].slices, set.plans[0].slices_in_flight);
  EXPECT_TRUE(verify_plans(set).ok()) << verify_plans(set).message();
  VerifyPlanOptions options;
  options.walk.window = false;
  EXPECT_NE(verify_plans(set, options).message().find("scratch"), std::string::npos);
}

// Each rule, broken in every plan of some: the verifier refuses at least one of them.
TEST(Walk, AWalkThatBreaksARuleIsRefused) {
  struct Broken {
    const char* rule;
    bool FaultyRules::*field;
  };
  const Broken all[] = {{"credit", &FaultyRules::credit},
                        {"after", &FaultyRules::after},
                        {"release of a region", &FaultyRules::late_release},
                        {"orders between lanes", &FaultyRules::orders},
                        {"readers at the end", &FaultyRules::epilogue}};
  std::vector<int> refused(std::size(all), 0);
  each_world(3, [&](const Lowering& lowering, const PlanSet& set) {
    const PlanSet before = examples::hard_predecessor(set, lowering.spread);
    const bool follows = set.plans[0].prologue.empty();
    std::vector<const PlanSet*> calls;
    if (follows) calls.push_back(&before);
    calls.push_back(&set);
    VerifyPlanOptions options{.rounds = 2, .regions = 1, .frames_per_region = 1};
    for (size_t i = 0; i < std::size(all); ++i) {
      options.walk = {};
      options.walk.*all[i].field = false;
      if (!verify_plans(calls, options).ok()) ++refused[i];
    }
  });
  for (size_t i = 0; i < std::size(all); ++i) EXPECT_GT(refused[i], 0) << all[i].rule;
}

}  // namespace
}  // namespace tutti::plan::machines
