// Search for layouts: training_systems 3.14, 3.15.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/layouts.h"

namespace tutti::runtime {
namespace {

ModelShape model_of(int64_t layers, int64_t hidden, int64_t heads) {
  return {layers, hidden, heads, 2048, 32000, true};
}

/// Pairs of dies, four a node, and nodes: as on Frontier, three levels.
Machine machine_of(int nodes) {
  return Machine({{2, {Nanoseconds(2'000), 150}},
                  {4, {Nanoseconds(4'000), 40}},
                  {nodes, {Nanoseconds(10'000), 12}}},
                 8 * nodes);
}

TrainingRun run_of(int64_t batch, int64_t gigabytes) {
  return {batch, 190'000, 0.6, Bytes(gigabytes << 30)};
}

// 3.14 (b): the formula on given numbers.
TEST(RuntimeLayouts, UtilizationIsTheFormula) {
  const ModelShape model{2, 8, 2, 16, 10, true};
  const double parameters = 12 * 2 * 64 + 80;
  EXPECT_EQ(model.parameters(), int64_t(parameters));
  EXPECT_DOUBLE_EQ(model.flops_per_token(), 6 * parameters + 12 * 2 * 8 * 16);
  EXPECT_DOUBLE_EQ(model_flops_utilization(model, 1000, 1e9), 1000 * model.flops_per_token() / 1e9);
  EXPECT_REFUSED(model_flops_utilization(model, 1, 0), "must be positive");
}

// 3.14 (e): every divisor triple once; what does not fit is not there.
TEST(RuntimeLayouts, EveryTripleIsConsideredOnceAndMemoryExcludes) {
  const LayoutSearch search =
      search_layouts(model_of(24, 4096, 32), run_of(64, 4096), machine_of(2));
  std::set<std::tuple<int, int, int, int64_t, bool>> seen;
  for (const LayoutChoice& c : search.ranked) {
    EXPECT_EQ(c.tensor * c.pipeline * c.data, 16);
    EXPECT_EQ(c.micro_batches * c.micro_batch * c.data, 64);
    EXPECT_TRUE(seen.insert({c.tensor, c.pipeline, c.data, c.micro_batch, c.checkpointed}).second);
  }
  // 15 cuts of 16 into three powers of two, 7 micro-batches, with and without checkpoints.
  EXPECT_EQ(search.candidates, 15 * 7 * 2);
  const LayoutSearch small = search_layouts(model_of(24, 4096, 32), run_of(64, 16), machine_of(2));
  EXPECT_LT(small.ranked.size(), search.ranked.size());
  for (const LayoutChoice& c : small.ranked) EXPECT_LE(c.memory, Bytes(int64_t{16} << 30));
  for (size_t i = 1; i < search.ranked.size(); ++i) {
    EXPECT_LE(search.ranked[i - 1].step, search.ranked[i].step);
  }
}

const LayoutChoice& find(const LayoutSearch& search, int tensor, int pipeline, int64_t micro) {
  for (const LayoutChoice& c : search.ranked) {
    if (c.tensor == tensor && c.pipeline == pipeline && c.micro_batch == micro && !c.checkpointed) {
      return c;
    }
  }
  throw Error(ErrorKind::kInfeasible, "there is no such layout");
}

// 3.14 (e), 3.15 (e).
TEST(RuntimeLayouts, BubblesGrowWithMicroBatchesAndTensorsBelongOnTheFastestLevel) {
  const LayoutSearch search =
      search_layouts(model_of(24, 4096, 32), run_of(64, 4096), machine_of(2));
  EXPECT_DOUBLE_EQ(find(search, 1, 8, 1).bubble, 7.0 / 32);
  EXPECT_DOUBLE_EQ(find(search, 1, 8, 4).bubble, 7.0 / 8);
  const double two = find(search, 2, 1, 1).mfu, four = find(search, 4, 1, 1).mfu;
  const double eight = find(search, 8, 1, 1).mfu, sixteen = find(search, 16, 1, 1).mfu;
  EXPECT_GT(two, four);
  EXPECT_GT(four, eight);
  EXPECT_GT(eight, sixteen);
  EXPECT_LT(search.ranked[0].mfu, 1);
  // Weak scaling: with as many more micro-batches as replicas the bubble stays.
  const LayoutSearch more =
      search_layouts(model_of(24, 4096, 32), run_of(128, 4096), machine_of(4));
  EXPECT_DOUBLE_EQ(find(more, 1, 8, 1).bubble, find(search, 1, 8, 1).bubble);
}

// 3.14 (f): 52 heads cannot use eight ranks; where nothing fits, the reasons are said.
TEST(RuntimeLayouts, WhatDoesNotDivideIsRefusedWithItsReason) {
  const LayoutSearch search =
      search_layouts(model_of(60, 6656, 52), run_of(64, 4096), machine_of(1));
  bool said = false;
  for (const std::string& reason : search.refused) {
    said =
        said || reason.find("8 tensor-parallel ranks do not divide 52 heads") != std::string::npos;
  }
  EXPECT_TRUE(said);
  for (const LayoutChoice& c : search.ranked) EXPECT_NE(c.tensor, 8);
  EXPECT_INFEASIBLE(search_layouts(model_of(24, 4096, 32), run_of(64, 1), machine_of(1)),
                    "memory beyond");
  EXPECT_INFEASIBLE(search_layouts(model_of(7, 4096, 32), run_of(3, 1), machine_of(1)),
                    "stages do not divide 7 layers");
  EXPECT_REFUSED(search_layouts(model_of(24, 4096, 33), run_of(64, 1), machine_of(1)), "33 heads");
  EXPECT_REFUSED(search_layouts(model_of(0, 4096, 32), run_of(64, 1), machine_of(1)), "1 or more");
  EXPECT_REFUSED(search_layouts(model_of(24, 4096, 32), run_of(64, 0), machine_of(1)),
                 "must be positive");
}

}  // namespace
}  // namespace tutti::runtime
