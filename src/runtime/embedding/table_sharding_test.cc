// Where tables go: cuts, costs, memory, and what longest-processing-time-first promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/table_sharding.h"

namespace tutti::runtime {
namespace {

TableShardingSpec spec_of(int ranks) {
  TableShardingSpec spec;
  spec.ranks = ranks;
  spec.batch = 1024;
  return spec;
}

std::vector<int64_t> loads_of(const TablePlan& plan) {
  std::vector<int64_t> loads(static_cast<size_t>(plan.ranks));
  for (const TableShard& shard : plan.shards) {
    loads[static_cast<size_t>(shard.rank)] += shard.cost.value;
  }
  return loads;
}

/// The least possible largest load, by trying everything.
int64_t optimum(const std::vector<int64_t>& costs, size_t next, std::vector<int64_t>& loads) {
  if (next == costs.size()) return *std::max_element(loads.begin(), loads.end());
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int64_t& load : loads) {
    load += costs[next];
    best = std::min(best, optimum(costs, next + 1, loads));
    load -= costs[next];
  }
  return best;
}

TEST(RuntimeTables, TheLargestLoadKeepsTheBoundOfLongestFirst) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const int ranks = 2 + round % 3;
    std::vector<EmbeddingTable> tables(7);
    for (EmbeddingTable& table : tables) {
      table.name = "t";
      table.rows = 1000;
      table.width = 4 * static_cast<int64_t>(1 + random() % 30);
      table.pooling = 1 + random() % 20;
      table.cut = TableCut::kWhole;
    }
    const TablePlan plan = plan_tables(tables, spec_of(ranks));
    check_tables(plan);
    std::vector<int64_t> costs, empty(static_cast<size_t>(ranks));
    for (const TableShard& shard : plan.shards) costs.push_back(shard.cost.value);
    const std::vector<int64_t> loads = loads_of(plan);
    const int64_t largest = *std::max_element(loads.begin(), loads.end());
    const int64_t least = optimum(costs, 0, empty);
    // largest <= (4/3 - 1/(3 ranks)) least, in whole numbers.
    EXPECT_LE(largest * 3 * ranks, (4 * ranks - 1) * least);
    EXPECT_GE(largest, least);
  }
}

TEST(RuntimeTables, ALargeTableIsCutByColumnsWhereTheyAlignElseByRows) {
  const std::vector<EmbeddingTable> tables = {{.name = "users", .rows = 1000, .width = 128},
                                              {.name = "odd", .rows = 1000, .width = 126},
                                              {.name = "small", .rows = 10, .width = 8}};
  const TablePlan plan = plan_tables(tables, spec_of(4));
  check_tables(plan);
  const auto shards = [&](int table) {
    return std::count_if(plan.shards.begin(), plan.shards.end(),
                         [&](const TableShard& shard) { return shard.table == table; });
  };
  EXPECT_EQ(shards(0), 2);  // 128 of 262 columns are two shares of four
  EXPECT_EQ(shards(1), 2);
  EXPECT_EQ(shards(2), 1);
  EXPECT_EQ(plan.shards[0].columns(), 64);
  EXPECT_EQ(plan.shards[2].columns(), 126);
  EXPECT_EQ(plan.shards[2].rows(), 500);
  EXPECT_EQ(plan, plan_tables(tables, spec_of(4)));
}

TEST(RuntimeTables, MemoryIsALimit) {
  const std::vector<EmbeddingTable> tables(
      4, {.name = "t", .rows = 1000, .width = 7, .cut = TableCut::kWhole});
  TableShardingSpec spec = spec_of(4);
  spec.memory = Bytes(1000 * 8 * 4);  // one table with its state
  for (const int64_t load : loads_of(plan_tables(tables, spec))) EXPECT_GT(load, 0);
  spec.memory = Bytes(1000 * 8 * 4 - 1);
  EXPECT_INFEASIBLE(plan_tables(tables, spec), "table 't' takes 32000 bytes");
  spec.memory = Bytes(1000 * 8 * 4 * 2 - 1);
  std::vector<EmbeddingTable> five = tables;
  five.push_back(tables[0]);
  EXPECT_INFEASIBLE(plan_tables(five, spec), "no bin has room");
}

TEST(RuntimeTables, RefusesWhatCannotBe) {
  const auto with = [](EmbeddingTable table) { return plan_tables({table}, spec_of(2)); };
  EXPECT_REFUSED(plan_tables({}, spec_of(2)), "no tables");
  EXPECT_REFUSED(with({.name = "a", .rows = 0}), "table 'a' has 0 rows");
  EXPECT_REFUSED(with({.name = "a", .pooling = -1}), "ids of a sample");
  EXPECT_REFUSED(with({.name = "a", .width = 12, .cut = TableCut::kColumns, .parts = 2}),
                 "multiples of 4");
  EXPECT_REFUSED(with({.name = "a", .rows = 2, .cut = TableCut::kRows, .parts = 3}),
                 "cannot be cut into 3");
  EXPECT_REFUSED(with({.name = "a", .parts = 3}), "say how it is cut");
  TableShardingSpec wrong = spec_of(2);
  wrong.link_rate = 0;
  EXPECT_REFUSED(plan_tables({{.name = "a"}}, wrong), "more than 0");
  TablePlan plan =
      plan_tables({{.name = "a", .rows = 4, .cut = TableCut::kRows, .parts = 2}}, spec_of(2));
  TablePlan broken = plan;
  broken.shards[1].row_begin = 1;
  EXPECT_REFUSED(check_tables(broken), "overlap at row 1");
  broken = plan;
  broken.shards.pop_back();
  EXPECT_REFUSED(check_tables(broken), "have 2 values of 4");
  broken = plan;
  std::swap(broken.shards[0], broken.shards[1]);
  EXPECT_REFUSED(check_tables(broken), "out of order");
  broken = plan;
  broken.shards[0].rank = 2;
  EXPECT_REFUSED(check_tables(broken), "on rank 2 of 2");
  EXPECT_REFUSED(on_fewer_ranks(plan, 3), "give 1 to 2");
}

}  // namespace
}  // namespace tutti::runtime
