// Every registered algorithm on machines that have nothing in common with the host's, for numbers
// of ranks that the including file instantiates.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/plan/walk_clock_test.h"
#include "src/plan/walk_lists_test.h"
#include "src/registry/algorithms.h"

namespace tutti::plan::machines {
namespace {

template <class Machine>
bool walk_through(Walk<Machine>& walk, Machine& machine) {
  Progress progress = Progress::kMoved;
  while (progress == Progress::kMoved) progress = walk.advance(machine);
  return progress == Progress::kDone;
}

/// The work of all ranks: for each rank some queues.
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

}  // namespace
}  // namespace tutti::plan::machines
