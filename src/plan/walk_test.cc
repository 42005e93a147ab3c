// The walk and its machines: every registered algorithm gives the right results on machines that
// have nothing in common with the host's, and a walk that breaks a rule is found out.
#include "src/plan/walk.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/plan/walk_clock_test.h"
#include "src/plan/walk_lists_test.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"

namespace tutti::plan::machines {
namespace {

template <class Machine>
bool walk_through(Walk<Machine>& walk, Machine& machine) {
  Progress progress = Progress::kMoved;
  while (progress == Progress::kMoved) progress = walk.advance(machine);
  return progress == Progress::kDone;
}

/// What all ranks have to do, rank by rank: some queues.
using Queues = std::vector<std::vector<std::deque<Item>*>>;

// Takes queues in random order, from each as much as it gives, until all are empty.
bool execute(const Queues& queues, std::mt19937& random) {
  std::vector<std::deque<Item>*> all;
  for (const auto& of_rank : queues) all.insert(all.end(), of_rank.begin(), of_rank.end());
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(all.begin(), all.end(), random);
    for (std::deque<Item>* queue : all) {
      const size_t most = 1 + random() % 4;
      for (size_t i = 0; i < most && !queue->empty() && queue->front()(); ++i) {
        queue->pop_front();
        moved = true;
      }
    }
  }
  return std::all_of(all.begin(), all.end(), [](const auto* queue) { return queue->empty(); });
}

/// All ranks of a world on machines that append, their calls one after the other.
template <class Machine>
class Appended {
 public:
  explicit Appended(World& world, std::vector<Engine> engines = {Engine::kHost}) {
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      for (const Engine engine : engines) {
        machines_.push_back(std::make_unique<Machine>(world, rank));
        Cursors cursors = world.cursors();
        Walk<Machine> walk(engine);
        for (uint32_t call = 0; call < World::kCalls; ++call) {
          machines_.back()->begin(call);
          walk.start(world.plan(rank), cursors);
          complete_ = walk_through(walk, *machines_.back()) && complete_;
        }
        queues_.push_back(machines_.back()->queues());
      }
    }
  }
  bool complete() const { return complete_; }
  const Queues& queues() const { return queues_; }

 private:
  std::vector<std::unique_ptr<Machine>> machines_;
  Queues queues_;
  bool complete_ = true;
};

std::string run_appended(World& world, bool by_lane, std::mt19937& random) {
  const auto outcome = [&](const auto& appended) -> std::string {
    if (!appended.complete()) return "a walk waits though every answer was to go on";
    if (!execute(appended.queues(), random)) return "what was appended cannot be executed";
    return world.check();
  };
  return by_lane ? outcome(Appended<Enqueuer>(world)) : outcome(Appended<Writer>(world));
}

std::string run_timed(World& world, uint64_t* time = nullptr) {
  Alarm alarm;
  std::vector<Timed> machines;
  std::vector<Cursors> cursors;
  std::vector<Walk<Timed>> walks(world.ranks());
  std::vector<uint32_t> calls(world.ranks(), 0);
  for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
    machines.emplace_back(world, alarm, rank);
    cursors.push_back(world.cursors());
    alarm.ready.push_back(rank);
  }
  while (!alarm.ready.empty()) {
    const uint32_t rank = alarm.ready.front();
    alarm.ready.pop_front();
    while (calls[rank] < World::kCalls) {
      if (walks[rank].phase() == Phase::kDone) {
        machines[rank].begin(calls[rank]);
        walks[rank].start(world.plan(rank), cursors[rank]);
      }
      if (!walk_through(walks[rank], machines[rank])) break;
      ++calls[rank];
    }
  }
  for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
    if (calls[rank] < World::kCalls) return "rank " + std::to_string(rank) + " is never woken";
    if (time != nullptr) *time = std::max(*time, machines[rank].now());
  }
  return world.check();
}

/// Every lowering of every algorithm, once in cells or one slice and once in several slices.
void each_world(int ranks, const std::function<void(const Lowering&, const PlanSet&)>& visit) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : lowerings(algorithm, ranks)) {
      // Of larger groups no more than an algorithm and its ways.
      if (ranks > 5 && (lowering.placing != Placing::kSeparate || lowering.parameters.root > 0)) {
        continue;
      }
      const Result<std::vector<Match>> matches = match_all(lowering);
      ASSERT_TRUE(matches.ok()) << matches.status().message();
      for (const uint64_t count : {1, 201}) {
        const BindRequest request{count, types::DataType::kInt64, types::ReduceOp::kSum};
        visit(lowering, bind_all(matches.value(), request, small_tuning(count == 1)));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

class Machines : public testing::TestWithParam<int> {};

TEST_P(Machines, ThatWriteDownOneListGiveTheRightResults) {
  std::mt19937 random(1);
  each_world(GetParam(), [&](const Lowering& lowering, const PlanSet& set) {
    World world(lowering, set);
    EXPECT_EQ(run_appended(world, false, random), "") << print(lowering) << " count " << set.count;
  });
}

TEST_P(Machines, ThatEnqueueByLaneGiveTheRightResultsInAnyOrder) {
  std::mt19937 random(2);
  each_world(GetParam(), [&](const Lowering& lowering, const PlanSet& set) {
    for (int order = 0; order < 2; ++order) {
      World world(lowering, set);
      EXPECT_EQ(run_appended(world, true, random), "") << print(lowering) << " count " << set.count;
    }
  });
}

TEST_P(Machines, WithAVirtualClockGiveTheRightResultsAndAlwaysTheSameTime) {
  each_world(GetParam(), [&](const Lowering& lowering, const PlanSet& set) {
    uint64_t first = 0, second = 0;
    for (uint64_t* time : {&first, &second}) {
      World world(lowering, set);
      EXPECT_EQ(run_timed(world, time), "") << print(lowering) << " count " << set.count;
    }
    EXPECT_EQ(first, second) << print(lowering);
    EXPECT_TRUE(first > 0 || set.group->ranks() == 1) << print(lowering);
  });
}

std::vector<int> numbers_of_ranks() {
  if (testing_support::kSanitized) return {2, 3};
  return {2, 3, 4, 5, 6, 7, 8, 9};
}
INSTANTIATE_TEST_SUITE_P(Ranks, Machines, testing::ValuesIn(numbers_of_ranks()));

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
  VerifyOptions options;
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
    VerifyOptions options{.rounds = 2, .regions = 1, .frames_per_region = 1};
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
