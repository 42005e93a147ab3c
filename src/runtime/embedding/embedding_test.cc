// Sharded embedding tables: the bits of one process, and the next step's lookups beside the update.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/embedding.h"

namespace tutti::runtime {
namespace {

using Rows = std::vector<float>;

/// The ids of one rank or of all, by table.
struct TestBatch {
  std::vector<std::vector<int64_t>> ids, offsets;
  int64_t samples = 0;
  std::vector<Bags> bags() const {
    std::vector<Bags> list;
    for (size_t t = 0; t < ids.size(); ++t) list.push_back({ids[t], offsets[t]});
    return list;
  }
};

/// Tables with shards of all kinds: whole, three runs of rows, two of columns.
TablePlan mixed_plan(int ranks) {
  TableShardingSpec spec;
  spec.ranks = ranks;
  return plan_tables(
      {{.name = "whole", .rows = 50, .width = 3, .cut = TableCut::kWhole},
       {.name = "rows", .rows = 40, .width = 5, .cut = TableCut::kRows, .parts = 3},
       {.name = "columns", .rows = 30, .width = 8, .cut = TableCut::kColumns, .parts = 2}},
      spec);
}

/// Bags of 0 to `most` ids; `skip` draws are for the ranks before.
TestBatch draw_batch(const TablePlan& plan, int64_t samples, int most, uint32_t seed) {
  std::mt19937 random(seed);
  TestBatch batch;
  batch.samples = samples;
  for (const EmbeddingTable& table : plan.tables) {
    auto& ids = batch.ids.emplace_back();
    auto& offsets = batch.offsets.emplace_back(1, 0);
    for (int64_t s = 0; s < samples; ++s) {
      const int count = most == 1 ? 1 : static_cast<int>(random() % (most + 1));
      for (int i = 0; i < count; ++i) ids.push_back(random() % table.rows);
      offsets.push_back(std::ssize(ids));
    }
  }
  return batch;
}

TestBatch joined(const std::vector<TestBatch>& parts) {
  TestBatch all = parts[0];
  for (size_t p = 1; p < parts.size(); ++p) {
    all.samples += parts[p].samples;
    for (size_t t = 0; t < all.ids.size(); ++t) {
      const int64_t base = std::ssize(all.ids[t]);
      all.ids[t].insert(all.ids[t].end(), parts[p].ids[t].begin(), parts[p].ids[t].end());
      for (size_t s = 1; s < parts[p].offsets[t].size(); ++s) {
        all.offsets[t].push_back(base + parts[p].offsets[t][s]);
      }
    }
  }
  return all;
}

/// Stands for a model: its gradients are a function of the pooled values of each sample alone.
std::vector<Rows> gradients_of(const std::vector<Rows>& pooled) {
  std::vector<Rows> gradients = pooled;
  for (Rows& table : gradients) {
    for (float& value : table) value = std::sin(value) + 0.25F;
  }
  return gradients;
}

std::vector<std::span<float>> views(std::vector<Rows>& arrays) {
  return {arrays.begin(), arrays.end()};
}
std::vector<std::span<const float>> const_views(const std::vector<Rows>& arrays) {
  return {arrays.begin(), arrays.end()};
}

std::vector<Rows> room_for(const TablePlan& plan, int64_t samples) {
  std::vector<Rows> pooled;
  for (const EmbeddingTable& table : plan.tables) {
    pooled.emplace_back(static_cast<size_t>(samples * table.width));
  }
  return pooled;
}

void fill_tables(EmbeddingTables& tables, bool whole_numbers) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t t = 0; t < tables.plan().tables.size(); ++t) {
    const EmbeddingTable& table = tables.plan().tables[t];
    Rows values(static_cast<size_t>(table.rows * table.width));
    for (float& value : values) {
      value = whole_numbers ? static_cast<float>(random() % 17) : uniform(random);
    }
    tables.load(static_cast<int>(t), values);
  }
}

EmbeddingSpec spec_of(const TablePlan& plan, Pooling pooling = Pooling::kSum) {
  EmbeddingSpec spec;
  spec.plan = plan;
  spec.pooling = pooling;
  spec.optimizer = rowwise_adagrad(0.1F);
  return spec;
}

/// All values of this rank's shards; others are zeros.
std::vector<Rows> saved(const EmbeddingTables& tables) {
  std::vector<Rows> all;
  for (size_t t = 0; t < tables.plan().tables.size(); ++t) {
    const EmbeddingTable& table = tables.plan().tables[t];
    tables.save(static_cast<int>(t),
                all.emplace_back(static_cast<size_t>(table.rows * table.width)));
  }
  return all;
}

constexpr int kSteps = 5;

/// The values of this rank's samples in each step, and its rows at the end.
struct Training {
  std::vector<std::vector<Rows>> pooled;
  std::vector<Rows> rows;
};

Training train(tuttiComm_t comm, const EmbeddingSpec& spec, const std::vector<TestBatch>& steps,
               bool ahead) {
  EmbeddingTables tables(comm, spec);
  fill_tables(tables, false);
  Training result;
  for (size_t step = 0; step < steps.size(); ++step) {
    auto& pooled = result.pooled.emplace_back(room_for(spec.plan, steps[step].samples));
    if (step == 0 || !ahead) {
      tables.forward(steps[step].bags(), views(pooled));
    } else {
      tables.finish(views(pooled));
    }
    if (ahead && step + 1 < steps.size()) tables.prefetch(steps[step + 1].bags());
    const std::vector<Rows> gradients = gradients_of(pooled);
    tables.backward(const_views(gradients));
  }
  result.rows = saved(tables);
  return result;
}

/// A different number of samples on each rank, none on one.
std::vector<std::vector<TestBatch>> draw_steps(const TablePlan& plan) {
  std::vector<std::vector<TestBatch>> steps(static_cast<size_t>(plan.ranks));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    for (int step = 0; step < kSteps; ++step) {
      const int64_t samples = rank == 1 && step == 2 ? 0 : 4 + rank;
      steps[size_t(rank)].push_back(
          draw_batch(plan, samples, 3, static_cast<uint32_t>(100 * step + rank)));
    }
  }
  return steps;
}

std::vector<TestBatch> joined_steps(const std::vector<std::vector<TestBatch>>& steps) {
  std::vector<TestBatch> all;
  for (size_t step = 0; step < kSteps; ++step) {
    std::vector<TestBatch> parts;
    for (const auto& of_rank : steps) parts.push_back(of_rank[step]);
    all.push_back(joined(parts));
  }
  return all;
}

class EmbeddingTraining : public testing::TestWithParam<std::tuple<Pooling, tuttiDataType_t>> {};

TEST_P(EmbeddingTraining, GivesTheBitsOfOneProcessAlsoAhead) {
  const TablePlan plan = mixed_plan(4);
  const auto steps = draw_steps(plan);
  EmbeddingSpec spec = spec_of(plan, std::get<0>(GetParam()));
  spec.backward_wire = std::get<1>(GetParam());
  EmbeddingSpec alone = spec;
  alone.plan = on_fewer_ranks(plan, 1);
  Training expected;
  run_ranks(
      1, [&](tuttiComm_t comm, int) { expected = train(comm, alone, joined_steps(steps), false); });
  for (const bool ahead : {false, true}) {
    std::vector<Training> found(4);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      found[size_t(rank)] = train(comm, spec, steps[size_t(rank)], ahead);
    });
    for (size_t step = 0; step < kSteps; ++step) {
      for (size_t t = 0; t < plan.tables.size(); ++t) {
        Rows together;
        for (const Training& one : found) {
          const Rows& part = one.pooled[step][t];
          together.insert(together.end(), part.begin(), part.end());
        }
        EXPECT_EQ(together, expected.pooled[step][t]) << "step " << step << ", table " << t;
      }
    }
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      Rows together(expected.rows[t].size());
      for (const Training& one : found) {  // each value is on one rank, and zero on the others
        for (size_t i = 0; i < together.size(); ++i) together[i] += one.rows[t][i];
      }
      EXPECT_EQ(together, expected.rows[t]) << "table " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, EmbeddingTraining,
                         testing::Combine(testing::Values(Pooling::kSum, Pooling::kMean),
                                          testing::Values(tuttiFloat32, tuttiBfloat16,
                                                          tuttiFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Pooling::kSum ? "Sum"
                                                                                       : "Mean") +
                                  std::to_string(static_cast<int>(std::get<1>(info.param)));
                         });

// FreeScale's property with whole numbers: a lookup before the update is wrong exactly for bags
// with rows that both batches touch, and the collision-first order is right for all.
TEST(RuntimeEmbedding, OnlyBagsThatCollideDifferWithoutTheOrder) {
  const TablePlan plan = mixed_plan(2);
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    std::vector<TestBatch> now, then;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      now.push_back(draw_batch(plan, 6, 1, seed + 100 * rank));
      then.push_back(draw_batch(plan, 6, 1, seed + 1000 + 100 * rank));
    }
    const TestBatch all_now = joined(now);
    run_ranks(2, [&](tuttiComm_t comm, int rank) {
      const TestBatch& next = then[size_t(rank)];
      std::vector<Rows> first = room_for(plan, 6), early = first, late = first, ordered = first;
      EmbeddingSpec spec = spec_of(plan);
      spec.optimizer = row_sgd(1);
      EmbeddingTables naive(comm, spec), exact(comm, spec);
      for (EmbeddingTables* tables : {&naive, &exact}) fill_tables(*tables, true);
      naive.forward(next.bags(), views(early));
      std::vector<Rows> ones = first;
      for (Rows& table : ones) std::fill(table.begin(), table.end(), 1.0F);
      naive.forward(now[size_t(rank)].bags(), views(first));
      naive.backward(const_views(ones));
      naive.forward(next.bags(), views(late));
      exact.forward(now[size_t(rank)].bags(), views(first));
      exact.prefetch(next.bags());
      exact.backward(const_views(ones));
      exact.finish(views(ordered));
      EXPECT_EQ(ordered, late);
      for (size_t t = 0; t < plan.tables.size(); ++t) {
        const std::set<int64_t> touched(all_now.ids[t].begin(), all_now.ids[t].end());
        const auto width = static_cast<size_t>(plan.tables[t].width);
        for (size_t s = 0; s < 6; ++s) {
          const bool collides = touched.contains(next.ids[t][s]);
          EXPECT_EQ(early[t][s * width] != late[t][s * width], collides) << "sample " << s;
        }
      }
    });
  }
}

// One row in ten collides, so a tenth of the synchronous bytes is waited for.
TEST(RuntimeEmbedding, WhatIsWaitedForIsTheShareOfRowsThatCollide) {
  TableShardingSpec sharding;
  sharding.ranks = 2;
  const TablePlan plan = plan_tables(
      {{.name = "t", .rows = 400, .width = 8, .cut = TableCut::kRows, .parts = 2}}, sharding);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    EmbeddingTables tables(comm, spec_of(plan));
    TestBatch now, then;
    for (TestBatch* batch : {&now, &then}) {
      batch->samples = 100;
      batch->ids.emplace_back();
      batch->offsets.emplace_back(1, 0);
      for (int64_t i = 0; i < 100; ++i) {
        // Rows of this rank's own half; the next batch repeats the first ten.
        batch->ids[0].push_back(200 * rank + (batch == &then && i >= 10 ? 100 + i - 10 : i));
        batch->offsets[0].push_back(i + 1);
      }
    }
    std::vector<Rows> pooled = room_for(plan, 100);
    tables.forward(now.bags(), views(pooled));
    const int64_t forward = tables.counters().urgent.value;
    EXPECT_EQ(forward, 100 * 8 * 2);
    tables.prefetch(then.bags());
    EXPECT_EQ(tables.collisions(rank).size(), 10);
    EXPECT_REFUSED(tables.collisions(1 - rank), "not one of this rank's");
    tables.backward(const_views(pooled));
    tables.finish(views(pooled));
    const EmbeddingCounters& counters = tables.counters();
    EXPECT_EQ((counters.urgent.value - forward) * 10, 100 * 8 * (4 + 2));
    EXPECT_EQ(counters.urgent.value - forward + counters.behind.value, 100 * 8 * (4 + 2));
    EXPECT_EQ(counters.collision_rows, 10);
    EXPECT_EQ(counters.next_rows, 100);
  });
}

// Of bfloat16 a value keeps eight bits, so its error is at most 2^-8 of it; fewer bytes by half.
TEST(RuntimeEmbedding, TheWireRoundsOnceAndHalvesTheBytes) {
  const TablePlan plan = mixed_plan(2);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    const TestBatch batch = draw_batch(plan, 50, 1, static_cast<uint32_t>(rank));
    std::vector<Rows> wide = room_for(plan, 50), narrow = wide;
    int64_t bytes[2] = {};
    for (const bool is_narrow : {false, true}) {
      EmbeddingSpec spec = spec_of(plan);
      spec.forward_wire = is_narrow ? tuttiBfloat16 : tuttiFloat32;
      EmbeddingTables tables(comm, spec);
      fill_tables(tables, false);
      tables.forward(batch.bags(), views(is_narrow ? narrow : wide));
      bytes[is_narrow] = tables.counters().urgent.value;
    }
    EXPECT_EQ(bytes[0], 2 * bytes[1]);
    bool differs = false;
    for (size_t t = 0; t < wide.size(); ++t) {
      for (size_t i = 0; i < wide[t].size(); ++i) {
        EXPECT_LE(std::fabs(wide[t][i] - narrow[t][i]), std::fabs(wide[t][i]) / 256);
        differs = differs || wide[t][i] != narrow[t][i];
      }
    }
    EXPECT_TRUE(differs);
  });
}

TEST(RuntimeEmbedding, Float16RefusesWhatItCannotCarryOrSaturates) {
  const TablePlan plan = mixed_plan(2);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    const TestBatch batch = draw_batch(plan, 4, 1, 5);
    std::vector<Rows> pooled = room_for(plan, 4);
    EmbeddingSpec spec = spec_of(plan);
    spec.forward_wire = tuttiFloat16;
    for (const float large : {1e6F, std::numeric_limits<float>::quiet_NaN()}) {
      EmbeddingTables tables(comm, spec);
      tables.forward(batch.bags(), views(pooled));
      if (rank == 0) {  // where its shards are, the values are too large
        for (int t = 0; t < 3; ++t) {
          const EmbeddingTable& table = plan.tables[size_t(t)];
          tables.load(t, Rows(size_t(table.rows * table.width), large));
        }
      }
      EXPECT_REFUSED(tables.forward(batch.bags(), views(pooled)), "rank 0 has values that float16");
    }
    spec.saturate = true;
    EmbeddingTables tables(comm, spec);
    tables.load(0, Rows(150, 1e6F));
    tables.forward(batch.bags(), views(pooled));
    EXPECT_EQ(pooled[0][0], 65504);
  });
}

// A batch that one rank is refused is refused on all, and the tables go on.
TEST(RuntimeEmbedding, RefusesABatchOnAllRanks) {
  const TablePlan plan = mixed_plan(2);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    EmbeddingTables tables(comm, spec_of(plan));
    fill_tables(tables, false);
    const TestBatch good = draw_batch(plan, 4, 2, 5);
    std::vector<Rows> pooled = room_for(plan, 4);
    const auto refuse_on_both = [&](const TestBatch& bad, const char* said) {
      if (rank == 0) {
        EXPECT_NE(refusal([&] { tables.forward(bad.bags(), views(pooled)); }).find(said),
                  std::string::npos);
      } else {
        EXPECT_NE(refusal([&] {
                    tables.forward(good.bags(), views(pooled));
                  }).find("the ids of rank 0 were refused"),
                  std::string::npos);
      }
    };
    TestBatch bad = draw_batch(plan, 4, 1, 6);
    bad.ids[1][2] = 40;
    refuse_on_both(bad, "table 'rows' is asked for row 40 and has rows 0 to 39");
    bad.ids[1][2] = -1;
    refuse_on_both(bad, "asked for row -1");
    bad = draw_batch(plan, 4, 1, 6);
    bad.offsets[2].pop_back();
    refuse_on_both(bad, "has 4 offsets and the first table 5");
    bad = draw_batch(plan, 4, 1, 6);
    bad.offsets[0][1] = 3;
    refuse_on_both(bad, "below the one before it");
    bad = draw_batch(plan, 4, 1, 6);
    bad.offsets[0].back() = 3;
    refuse_on_both(bad, "end at the number of ids");
    refuse_on_both(draw_batch(plan, 5, 1, 6), "pooled values of table 'whole' have 12");
    tables.forward(good.bags(), views(pooled));
    const std::vector<Rows> short_ones(3);
    EXPECT_REFUSED(tables.backward(const_views(short_ones)), "4 samples need 12");
    tables.backward(const_views(pooled));
  });
}

TEST(RuntimeEmbedding, RefusesCallsOutOfTheirOrder) {
  const TablePlan plan = mixed_plan(2);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    EmbeddingTables tables(comm, spec_of(plan));
    const TestBatch batch = draw_batch(plan, 4, 2, 5);
    std::vector<Rows> pooled = room_for(plan, 4);
    EXPECT_REFUSED(tables.prefetch(batch.bags()), "nothing says which rows collide");
    const int own = plan.shards[0].rank == rank ? 0 : 1;
    if (plan.shards[size_t(own)].rank == rank) {
      EXPECT_REFUSED(tables.collisions(own), "no batch is prefetched");
    }
    EXPECT_REFUSED(tables.backward(const_views(pooled)), "no batch waits");
    EXPECT_REFUSED(tables.finish(views(pooled)), "nothing was prefetched");
    tables.forward(batch.bags(), views(pooled));
    tables.prefetch(batch.bags());
    EXPECT_REFUSED(tables.forward(batch.bags(), views(pooled)), "a prefetch is under way");
    EXPECT_REFUSED(tables.prefetch(batch.bags()), "a prefetch is under way");
    tables.backward(const_views(pooled));
    EXPECT_REFUSED(tables.backward(const_views(pooled)), "backward() once for it");
    // Tables that end here leave an exchange in the middle, which must not hold up their end.
  });
}

TEST(RuntimeEmbedding, RefusesSpecsThatCannotBe) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    EmbeddingSpec spec = spec_of(mixed_plan(2));
    const auto make = [&](const EmbeddingSpec& with) { EmbeddingTables(comm, with); };
    EmbeddingSpec wrong = spec;
    wrong.forward_wire = tuttiFloat64;
    EXPECT_REFUSED(make(wrong), "the forward wire has type");
    wrong = spec;
    wrong.optimizer = nullptr;
    EXPECT_REFUSED(make(wrong), "no optimizer");
    wrong = spec_of(mixed_plan(3));
    EXPECT_REFUSED(make(wrong), "for 3 ranks and the communicator has 2");
    wrong = spec;
    wrong.pooling = rank == 0 ? Pooling::kSum : Pooling::kMean;
    EXPECT_NE(refusal([&] { make(wrong); }, ErrorKind::kRanksDiffer).find("embedding tables"),
              std::string::npos);
    wrong = spec;
    wrong.store = [](const TableShard& shard, int64_t) {
      return std::make_shared<MemoryRows>(shard.rows(), 1);
    };
    EXPECT_REFUSED(make(wrong), "the store of a shard");
  });
}

// A table of a slower memory behind a cache gives the same bits.
TEST(RuntimeEmbedding, AStoreOfTheCallersHoldsTheRows) {
  const TablePlan plan = mixed_plan(2);
  const auto steps = draw_steps(plan);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    EmbeddingSpec cached = spec_of(plan);
    cached.store = [](const TableShard& shard, int64_t stride) {
      return std::make_shared<CachedRows>(std::make_shared<MemoryRows>(shard.rows(), stride), 6);
    };
    const auto& own = steps[size_t(rank)];
    const Training expected = train(comm, spec_of(plan), own, true);
    const Training found = train(comm, cached, own, true);
    EXPECT_EQ(found.pooled, expected.pooled);
    EXPECT_EQ(found.rows, expected.rows);
  });
}

}  // namespace
}  // namespace tutti::runtime
