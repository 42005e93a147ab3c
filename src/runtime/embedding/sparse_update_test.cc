// Exact updates: equal bits for any order of arrival, and caches that change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/sparse_update.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kColumns = 5;
constexpr int64_t kRows = 40;

std::vector<int64_t> every_row() {
  std::vector<int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<float> contents(RowStore& store) {
  std::vector<float> values(static_cast<size_t>(store.rows() * store.stride()));
  store.read(every_row(), values.data());
  return values;
}

struct Gradients {
  explicit Gradients(int64_t count) : values(static_cast<size_t>(count * kColumns)) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& value : values) value = uniform(random);
    for (int64_t i = 0; i < count; ++i) {
      list.push_back({static_cast<int64_t>(random() % kRows), i / 3,
                      &values[static_cast<size_t>(i * kColumns)]});
    }
  }
  std::vector<float> values;
  std::vector<RowGradient> list;
};

TEST(RuntimeSparseUpdate, AnyOrderOfArrivalGivesEqualBits) {
  for (const bool adagrad : {false, true}) {
    const auto optimizer = adagrad ? rowwise_adagrad(0.1F) : row_sgd(0.1F);
    Gradients gradients(300);
    std::vector<float> expected;
    std::mt19937 random(9);
    for (int round = 0; round < 20; ++round) {
      MemoryRows rows(kRows, kColumns + optimizer->state_of_row());
      apply_exact(gradients.list, kColumns, *optimizer, rows);
      if (expected.empty()) expected = contents(rows);
      EXPECT_EQ(contents(rows), expected) << round;
      std::shuffle(gradients.list.begin(), gradients.list.end(), random);
    }
  }
}

// Two gradients are enough: Adagrad's state of the first one scales the second, so steps of their
// own end elsewhere in the other order, and elsewhere than one step does.
TEST(RuntimeSparseUpdate, AStepForEachGradientDependsOnTheirOrder) {
  const auto optimizer = rowwise_adagrad(1);
  const float small = 1, large = 3;
  const auto after = [&](std::vector<std::vector<const float*>> calls) {
    MemoryRows rows(1, 2);
    for (const auto& call : calls) {
      std::vector<RowGradient> gradients;
      for (const float* values : call) gradients.push_back({0, int64_t(values == &large), values});
      apply_exact(gradients, 1, *optimizer, rows);
    }
    float values[2];
    const int64_t row[] = {0};
    rows.read(row, values);
    return values[0];
  };
  EXPECT_EQ(after({{&small, &large}}), after({{&large, &small}}));
  EXPECT_NE(after({{&small}, {&large}}), after({{&large}, {&small}}));
  EXPECT_NE(after({{&small}, {&large}}), after({{&small, &large}}));
}

TEST(RuntimeSparseUpdate, TheStepsAreThoseOfTheFormulas) {
  const float gradient[] = {3, -4, 0, 0, 0};
  const std::vector<RowGradient> one = {{2, 0, gradient}};
  MemoryRows plain(kRows, kColumns), scaled(kRows, kColumns + 1);
  apply_exact(one, kColumns, *row_sgd(0.5F), plain);
  apply_exact(one, kColumns, *rowwise_adagrad(1, 1), scaled);
  const int64_t row[] = {2};
  float values[kColumns + 1];
  plain.read(row, values);
  EXPECT_EQ(values[0], -1.5F);
  EXPECT_EQ(values[1], 2);
  scaled.read(row, values);
  EXPECT_EQ(values[kColumns], 5);  // (9 + 16) / 5
  EXPECT_FLOAT_EQ(values[0], -3 / (std::sqrt(5.0F) + 1));
}

// A slow store behind a cache: what is asked of it is counted, and rows are those without a cache.
TEST(RuntimeSparseUpdate, ACacheChangesNothingButWhatIsRead) {
  const auto optimizer = rowwise_adagrad(0.1F);
  MemoryRows plain(kRows, kColumns + 1);
  const auto behind = std::make_shared<MemoryRows>(kRows, kColumns + 1);
  for (const int64_t capacity : {1, 7, 100}) {
    CachedRows cached(behind, capacity);
    for (int round = 0; round < 5; ++round) {
      Gradients gradients(30 + round);
      apply_exact(gradients.list, kColumns, *optimizer, plain);
      apply_exact(gradients.list, kColumns, *optimizer, cached);
      EXPECT_EQ(contents(cached), contents(plain));
    }
    if (capacity == 100) {
      EXPECT_EQ(cached.counters().misses, kRows);
      EXPECT_EQ(cached.counters().written_back, 0);
      EXPECT_NE(contents(*behind), contents(plain));
    }
    cached.flush();
    EXPECT_EQ(contents(*behind), contents(plain));
    const int64_t written = cached.counters().written_back;
    cached.flush();
    EXPECT_EQ(cached.counters().written_back, written);
  }
}

TEST(RuntimeSparseUpdate, RefusesWhatCannotBe) {
  EXPECT_REFUSED(row_sgd(0), "above 0");
  EXPECT_REFUSED(rowwise_adagrad(1, 0), "epsilon");
  EXPECT_REFUSED(MemoryRows(0, 1), "1 or more");
  EXPECT_REFUSED(CachedRows(nullptr, 1), "a store behind it");
  MemoryRows rows(4, kColumns);
  const float gradient[kColumns] = {};
  const auto apply = [&](RowGradient one, const RowOptimizer& optimizer) {
    const std::vector<RowGradient> list = {{0, 0, gradient}, one};
    apply_exact(list, kColumns, optimizer, rows);
  };
  EXPECT_REFUSED(apply({4, 0, gradient}, *row_sgd(1)), "row 4 of 4");
  EXPECT_REFUSED(apply({0, 0, nullptr}, *row_sgd(1)), "has no values");
  EXPECT_REFUSED(apply({0, 0, gradient}, *rowwise_adagrad(1)), "the store's rows have 5");
  const int64_t twice[] = {1, 1};
  float values[2 * kColumns];
  EXPECT_REFUSED(rows.read(twice, values), "in ascending order");
}

}  // namespace
}  // namespace tutti::runtime
