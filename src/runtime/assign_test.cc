// The planners against the numbers of training_systems 3.3, 3.8, 3.10 and against exact search.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/assign.h"

namespace tutti::runtime {
namespace {

/// Experts with these loads, so many a rank.
WorkProblem experts(const std::vector<int64_t>& loads, int ranks) {
  WorkProblem problem;
  problem.bins.resize(size_t(ranks));
  const int64_t per_rank = std::ssize(loads) / ranks;
  for (int64_t e = 0; e < std::ssize(loads); ++e) {
    WorkItem item;
    item.units = loads[size_t(e)];
    item.grain = 1;
    item.home = int(e / per_rank);
    problem.items.push_back(item);
  }
  return problem;
}

// 3.3 (e), L1.
TEST(RuntimeSpill, FourRanksShareTheHotExpertAsThePaperDoes) {
  const WorkProblem problem = experts({700, 100, 60, 40, 50, 30, 15, 5}, 4);
  const Assignment result = least_loaded_spill(problem, {1.0, 1});
  const std::vector<WorkSlice> first(result.slices.begin(), result.slices.begin() + 4);
  EXPECT_EQ(first, (std::vector<WorkSlice>{
                       {0, 0, 150, 0}, {0, 150, 380, 3}, {0, 380, 550, 2}, {0, 550, 700, 1}}));
  const Judgement judged = judge(problem, result);
  EXPECT_EQ(judged.loads, (std::vector<int64_t>(4, 250)));
  EXPECT_EQ(judged.moves, 3);
}

// 3.3 (e), L2.
TEST(RuntimeSpill, NinetyFivePercentOnOneOf128ExpertsIsSharedEqually) {
  std::vector<int64_t> loads(128, 50000 / 127);
  loads[0] = 950000;
  for (int64_t rest = 50000 % 127, e = 127; rest > 0; --rest, --e) ++loads[size_t(e)];
  const WorkProblem problem = experts(loads, 8);
  Assignment whole;
  for (int e = 0; e < 128; ++e) whole.slices.push_back({e, 0, loads[size_t(e)], e / 16});
  EXPECT_NEAR(double(judge(problem, whole).max_load), 955'984, 150);
  const auto begin = std::chrono::steady_clock::now();
  const Judgement judged = judge(problem, least_loaded_spill(problem, {1.0, 1}));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("W5 least_loaded_spill, 128 experts, 8 ranks: %.3f ms\n", took.count());
  EXPECT_EQ(judged.loads, (std::vector<int64_t>(8, 125000)));
  EXPECT_EQ(judged.moves, 7);
}

TEST(RuntimeSpill, KeepsEveryMarkAndCopiesLittleOnRandomLoads) {
  std::mt19937 dice(3);
  for (int i = 0; i < 3000; ++i) {
    const int ranks = 2 + int(dice() % 7), each = 1 + int(dice() % 4);
    std::vector<int64_t> loads(size_t(ranks * each));
    for (int64_t& load : loads) load = dice() % 4 == 0 ? dice() % 5000 : dice() % 50;
    const WorkProblem problem = experts(loads, ranks);
    const double alpha = 1 + double(dice() % 3) / 4;
    const Assignment result = least_loaded_spill(problem, {alpha, 1});
    EXPECT_EQ(result, least_loaded_spill(problem, {alpha, 1}));
    const Judgement judged = judge(problem, result);
    double sum = 0;
    for (const int64_t load : loads) sum += double(load);
    ASSERT_LE(double(judged.max_load), std::ceil(alpha * sum / ranks));
    ASSERT_LE(judged.moves, ranks * each + ranks);
  }
}

TEST(RuntimeSpill, SmallSlicesAreForcedOnTheLeastLoaded) {
  const WorkProblem problem = experts({100, 0, 90, 0}, 4);
  const Judgement judged = judge(problem, least_loaded_spill(problem, {1.0, 1000}));
  EXPECT_GT(judged.max_load, 48);
  EXPECT_EQ(judge(experts({7}, 1), least_loaded_spill(experts({7}, 1), {1, 1})).moves, 0);
}

TEST(RuntimeSpill, RefusesRulesUnderWhichItCannotEnd) {
  const WorkProblem problem = experts({4, 4}, 2);
  EXPECT_REFUSED(least_loaded_spill(problem, {0.9, 1}), "give 1 or more");
  EXPECT_REFUSED(least_loaded_spill(problem, {1, 0}), "does not end");
  EXPECT_REFUSED(least_loaded_spill(experts({-1, 4}, 2), {1, 1}), "negative number");
  WorkProblem homeless = problem;
  homeless.items[1].home = -1;
  EXPECT_REFUSED(least_loaded_spill(homeless, {1, 1}), "no home");
  EXPECT_REFUSED(least_loaded_spill({}, {1, 1}), "no bins");
}

/// A document of L tokens as head-tail pairs: each pair is L + 1 units of causal work.
WorkItem document(int64_t length, int home) {
  WorkItem item;
  item.units = length / 2;
  item.unit_cost = length + 1;
  item.grain = 1;
  item.home = home;
  item.move_fixed = Bytes(length * 4096);
  item.move_per_unit = Bytes(2 * 16384);
  return item;
}

// 3.8 (e), C1: work 8:4:2:1 on four servers.
TEST(RuntimeDeficitFill, ThreeMovesBalanceFourServers) {
  WorkProblem problem;
  problem.bins.resize(4);
  for (int server = 0; server < 4; ++server) {
    for (int d = 0; d < 1 << server; ++d) {
      problem.items.push_back(document((16 << 10) >> server, server));
    }
  }
  const Assignment result = deficit_fill(problem, 0.05);
  const Judgement judged = judge(problem, result);
  EXPECT_EQ(judged.moves, 3);
  int64_t sum = 0;
  for (const int64_t load : judged.loads) sum += load;
  EXPECT_EQ(sum, 134225920 + 2 * 33558528LL + 4 * 8390656LL + 8 * 2098176LL);
  for (const int64_t load : judged.loads) {
    EXPECT_NEAR(double(load) / (double(sum) / 4), 1.0, 0.0002);
  }
}

TEST(RuntimeDeficitFill, KeepsTheGrainAndNeedsHomes) {
  WorkProblem problem;
  problem.bins.resize(3);
  problem.items = {document(4096, 0), document(2048, 1)};
  for (WorkItem& item : problem.items) item.grain = 64;
  const Assignment result = deficit_fill(problem, 0);
  for (const WorkSlice& slice : result.slices) EXPECT_EQ(slice.begin % 64, 0);
  judge(problem, result);
  EXPECT_REFUSED(deficit_fill(problem, -0.1), "give 0 or more");
  problem.items[0].home = -1;
  EXPECT_REFUSED(deficit_fill(problem, 0.1), "no home");
}

/// Blocks of documents as causal work in blocks of one unit: block i of a document attends to i
/// full ones and half of itself.
WorkProblem document_blocks(const std::vector<int>& documents, int ranks) {
  WorkProblem problem;
  problem.bins.resize(size_t(ranks));
  for (const int blocks : documents) {
    for (int b = 0; b < blocks; ++b) {
      WorkItem item;
      item.unit_cost = 2 * b + 1;  // in half blocks
      problem.items.push_back(item);
    }
  }
  return problem;
}

// 3.10 (e), P2: in blocks, LPT gives 54.0 at a mean of 53.75.
TEST(RuntimeLpt, FortyEightBlocksOnFourRanks) {
  const WorkProblem problem = document_blocks({16, 8, 8, 4, 4, 2, 2, 2, 1, 1}, 4);
  EXPECT_EQ(problem.items.size(), 48u);
  const Judgement judged = judge(problem, lpt(problem));
  EXPECT_EQ(judged.max_load, 2 * 54);
  EXPECT_DOUBLE_EQ(double(judged.max_load) / judged.max_over_mean / 2, 53.75);
}

TEST(RuntimeLpt, StaysWithinGrahamsBoundOfTheOptimum) {
  std::mt19937 dice(5);
  for (int i = 0; i < 60; ++i) {
    WorkProblem problem;
    problem.bins.resize(2 + dice() % 3);
    problem.items.resize(3 + dice() % 8);
    for (WorkItem& item : problem.items) {
      item.unit_cost = 1 + dice() % 30;
      item.home = int(dice() % problem.bins.size());
      item.move_fixed = Bytes(10);
    }
    const double n = double(problem.bins.size());
    const Judgement best = judge(problem, exact(problem));
    const Judgement quick = judge(problem, lpt(problem));
    EXPECT_LE(double(quick.max_load), (4.0 / 3 - 1 / (3 * n)) * double(best.max_load));
    EXPECT_GE(quick.max_load, best.max_load);
    EXPECT_TRUE(quick.max_load > best.max_load || quick.moved >= best.moved);
  }
}

TEST(RuntimeTwoLevel, LongItemsAreCutOverNodesAndShortOnesStayWhole) {
  WorkProblem problem;
  for (int b = 0; b < 8; ++b) problem.bins.push_back({kNoLimit, kNoLimit, b / 4});
  problem.items.push_back(document(65536, -1));
  for (int i = 0; i < 40; ++i) problem.items.push_back(document(2048 + 128 * i, -1));
  for (WorkItem& item : problem.items) item.grain = 64;
  const Assignment result = two_level(problem);
  const Judgement judged = judge(problem, result);
  EXPECT_LT(judged.max_over_mean, 1.05);
  for (const WorkSlice& slice : result.slices) {
    if (slice.item == 0) continue;
    EXPECT_EQ(slice.end - slice.begin, problem.items[size_t(slice.item)].units);
  }
}

TEST(RuntimeAssign, LimitsBindAndInfeasibleProblemsSayWhy) {
  WorkProblem problem;
  problem.bins = {{10, kNoLimit, 0}, {10, kNoLimit, 1}};
  problem.items.resize(3);
  for (WorkItem& item : problem.items) item.unit_cost = 7;
  EXPECT_INFEASIBLE(lpt(problem), "no bin has room for item 2");
  EXPECT_INFEASIBLE(two_level(problem), "no bin has room");
  EXPECT_INFEASIBLE(exact(problem), "keeps the bins' limits");
  problem.items.resize(17);
  EXPECT_REFUSED(exact(problem), "at most 16");
  WorkProblem memory;
  memory.bins = {{kNoLimit, 4, 0}, {kNoLimit, 9, 0}};
  memory.items.resize(2);
  for (WorkItem& item : memory.items) item.unit_memory = 5;
  EXPECT_INFEASIBLE(lpt(memory), "of memory");
}

TEST(RuntimeAssign, TheValidatorFindsEveryKindOfFault) {
  WorkProblem problem = experts({10, 10}, 2);
  problem.bins[1].capacity = 12;
  problem.bins[0].memory = 15;
  problem.items[0].unit_memory = 2;
  problem.items[0].grain = 5;
  const std::vector<WorkSlice> good{{0, 0, 5, 0}, {0, 5, 10, 1}, {1, 0, 3, 0}, {1, 3, 10, 1}};
  EXPECT_EQ(judge(problem, {good}).moves, 2);
  const auto with = [&](size_t i, WorkSlice slice) {
    std::vector<WorkSlice> slices = good;
    slices[i] = slice;
    return Assignment{slices};
  };
  EXPECT_REFUSED(judge(problem, with(0, {0, 0, 4, 0})), "grain 5");
  EXPECT_REFUSED(judge(problem, with(3, {1, 4, 10, 1})), "never or twice");
  EXPECT_REFUSED(judge(problem, with(3, {1, 2, 10, 1})), "never or twice");
  EXPECT_REFUSED(judge(problem, with(3, {1, 3, 9, 1})), "only 9 of 10");
  EXPECT_REFUSED(judge(problem, with(2, {1, 0, 3, 2})), "in bin 2");
  EXPECT_REFUSED(judge(problem, with(2, {-1, 0, 3, 1})), "of item -1");
  EXPECT_REFUSED(judge(problem, with(2, {1, 0, 3, 1})), "its capacity is 12");
  EXPECT_REFUSED(judge(problem, with(1, {0, 5, 10, 0})), "needs memory 20");
  problem.items[1].grain = 0;
  EXPECT_REFUSED(judge(problem, {good}), "must stay whole");
}

}  // namespace
}  // namespace tutti::runtime
