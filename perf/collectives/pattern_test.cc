#include "perf/collectives/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace tutti::perf {
namespace {

constexpr int kRankCounts[] = {1, 2, 3, 5, 8, 16, 61, 256};

bool is_representable(const DataType& type, double value) {
  std::byte element[8] = {};
  encode(type, value, element);
  return decode(type, element) == value;
}

double apply(const DataType& type, tuttiRedOp_t op, double a, double b) {
  const Logic logic = logic_of(type, op);
  if (logic != Logic::kNone) return combined(logic, a, b);
  switch (op) {
    case tuttiProd:
      return a * b;
    case tuttiMax:
      return std::max(a, b);
    case tuttiMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

template <class Visit>
void for_all_patterns(Visit&& visit) {
  for (const DataType& type : all_data_types()) {
    for (const ReduceOp& op : all_reduce_ops()) {
      if (!is_defined(type, op.id)) continue;
      for (const int ranks : kRankCounts) {
        SCOPED_TRACE(std::string(type.name) + " " + op.name + " " + std::to_string(ranks));
        visit(type, op.id, ranks, Pattern(type, op.id, ranks, 11));
      }
    }
  }
}

// The check can demand the exact bits because no order of adding rounds.
TEST(Pattern, EveryPartialResultInEveryOrderIsExactInTheType) {
  std::mt19937 random(3);
  for_all_patterns([&](const DataType& type, tuttiRedOp_t op, int ranks, const Pattern& pattern) {
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (size_t index = 0; index < 40; ++index) {
      std::shuffle(order.begin(), order.end(), random);
      double partial = pattern.contribution(order[0], index);
      ASSERT_TRUE(is_representable(type, partial));
      for (size_t i = 1; i < order.size(); ++i) {
        const double next = pattern.contribution(order[i], index);
        ASSERT_TRUE(is_representable(type, next)) << "a scaled input is rounded before it is added";
        partial = apply(type, op, partial, next);
        ASSERT_TRUE(is_representable(type, partial)) << partial;
      }
      if (op != tuttiAvg) {
        ASSERT_EQ(partial, pattern.reduced(index));
      }
    }
  });
}

TEST(Pattern, ValuesDifferBetweenRanksIndicesAndSeeds) {
  for_all_patterns([](const DataType& type, tuttiRedOp_t op, int ranks, const Pattern& pattern) {
    const Pattern other(type, op, ranks, 12);
    std::set<double> values;
    size_t same_seed = 0;
    for (size_t index = 0; index < Pattern::kPeriod; ++index) {
      values.insert(pattern.input(0, index));
      same_seed += pattern.input(0, index) == other.input(0, index);
    }
    EXPECT_GE(values.size(), 2u);
    if (ranks <= 8) {
      EXPECT_LT(same_seed, Pattern::kPeriod * 9 / 10);
    }
  });
}

std::vector<std::byte> correct_output(const DataType& type, const Pattern& pattern, size_t count) {
  std::vector<std::byte> output(count * type.bytes);
  for (size_t i = 0; i < count; ++i) {
    encode(type, pattern.reduced(i), output.data() + i * type.bytes);
  }
  return output;
}

TEST(Pattern, CountsEveryWrongElement) {
  constexpr size_t kCount = 3000;  // more than two periods
  const Block blocks[] = {{Block::kEveryRank, 0, kCount}};
  for (const DataType& type : all_data_types()) {
    SCOPED_TRACE(type.name);
    const Pattern pattern(type, tuttiSum, 4, 1);
    std::vector<std::byte> output = correct_output(type, pattern, kCount);
    EXPECT_EQ(pattern.check(blocks, output.data()).count, 0u);
    for (const size_t index : {size_t{0}, size_t{1020}, size_t{1021}, kCount - 1}) {
      output[index * type.bytes] ^= std::byte{1};
    }
    EXPECT_EQ(pattern.check(blocks, output.data()).count, 4u);
    pattern.poison(output.data(), kCount);
    EXPECT_GT(pattern.check(blocks, output.data()).count, kCount * 9 / 10);
  }
}

TEST(Pattern, NamesTheFirstWrongElement) {
  const DataType& type = data_type(tuttiFloat32);
  const Pattern pattern(type, tuttiSum, 4, 1);
  const Block blocks[] = {{Block::kEveryRank, 0, 1100}, {Block::kUntouched, 0, 100}};
  std::vector<std::byte> output(1200 * type.bytes);
  pattern.poison(output.data(), 1200);
  const std::vector<std::byte> right = correct_output(type, pattern, 1100);
  std::copy(right.begin(), right.end(), output.begin());
  EXPECT_EQ(pattern.check(blocks, output.data()).count, 0u);

  encode(type, pattern.reduced(1050) + 1, output.data() + 1050 * type.bytes);
  encode(type, 0, output.data() + 1150 * type.bytes);
  const Mistakes found = pattern.check(blocks, output.data());
  EXPECT_EQ(found.count, 2u);
  EXPECT_EQ(found.element, 1050u);
  EXPECT_EQ(found.expected, pattern.reduced(1050));
  EXPECT_EQ(found.got, pattern.reduced(1050) + 1);
}

TEST(Pattern, ABlockInTheWrongPlaceIsSeen) {
  constexpr size_t kCount = 4096;
  const DataType& type = data_type(tuttiFloat32);
  const Pattern pattern(type, tuttiMax, 2, 1);
  std::vector<std::byte> output(2 * kCount * type.bytes);
  pattern.fill_input(1, output.data(), kCount);
  pattern.fill_input(0, output.data() + kCount * type.bytes, kCount);
  const Block swapped[] = {{1, 0, kCount}, {0, 0, kCount}};
  const Block wanted[] = {{0, 0, kCount}, {1, 0, kCount}};
  const Block shifted[] = {{1, 64, kCount - 64}};
  EXPECT_EQ(pattern.check(swapped, output.data()).count, 0u);
  EXPECT_GT(pattern.check(wanted, output.data()).count, kCount);
  EXPECT_GT(pattern.check(shifted, output.data()).count, kCount / 2);
}

TEST(Pattern, AScaledSumIsNotThePlainSumOfItsInputs) {
  const Block blocks[] = {{Block::kEveryRank, 0, 1000}};
  for (const DataType& type : all_data_types()) {
    if (!is_defined(type, kMulSum)) continue;
    SCOPED_TRACE(type.name);
    const Pattern pattern(type, kMulSum, 4, 1);
    std::vector<std::byte> output(1000 * type.bytes);
    for (size_t i = 0; i < 1000; ++i) {
      double plain = 0;
      for (int rank = 0; rank < 4; ++rank) plain += pattern.input(rank, i);
      encode(type, plain, output.data() + i * type.bytes);
    }
    EXPECT_GT(pattern.check(blocks, output.data()).count, 400u);
    output = correct_output(type, pattern, 1000);
    EXPECT_EQ(pattern.check(blocks, output.data()).count, 0u);
  }
}

TEST(Pattern, OnlyAveragesOfFloatsMayBeRounded) {
  const Block blocks[] = {{Block::kEveryRank, 0, 100}};
  const auto wrong_by_one_ulp = [&](tuttiRedOp_t op, int ranks) {
    const DataType& type = data_type(tuttiFloat32);
    const Pattern pattern(type, op, ranks, 1);
    std::vector<std::byte> output = correct_output(type, pattern, 100);
    for (size_t i = 0; i < 100; ++i) output[i * type.bytes] ^= std::byte{1};
    return pattern.check(blocks, output.data()).count;
  };
  EXPECT_EQ(wrong_by_one_ulp(tuttiSum, 3), 100u);
  EXPECT_EQ(wrong_by_one_ulp(tuttiAvg, 4), 100u);
  EXPECT_EQ(wrong_by_one_ulp(tuttiAvg, 3), 0u);
}

}  // namespace
}  // namespace tutti::perf
