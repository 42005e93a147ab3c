// A check must see faults of a reduction that are planted in its arithmetic, for every type and
// operation. (pattern_test.cc: that a right result passes, and that blocks are where they belong.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "perf/collectives/pattern.h"
#include "tests/support/sanitizer.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kSeed = 11;

/// The contribution of every rank at every index: [index][rank].
using Table = std::vector<std::vector<double>>;

Table contributions_of(const Pattern& pattern, int ranks, size_t count) {
  Table table(count);
  for (size_t index = 0; index < count; ++index) {
    for (int rank = 0; rank < ranks; ++rank)
      table[index].push_back(pattern.contribution(rank, index));
  }
  return table;
}

double folded(const DataType& type, tuttiRedOp_t op, const std::vector<double>& values) {
  const Logic logic = logic_of(type, op);
  double result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (logic != Logic::kNone) {
      result = combined(logic, result, values[i]);
    } else if (op == tuttiProd) {
      result *= values[i];
    } else if (op == tuttiMax) {
      result = std::max(result, values[i]);
    } else if (op == tuttiMin) {
      result = std::min(result, values[i]);
    } else {
      result += values[i];
    }
  }
  return result;
}

/// As a library stores it: integers wrap, and the average of integers is cut.
void store(const DataType& type, tuttiRedOp_t op, int ranks, double value, std::byte* element) {
  if (type.is_float) return encode(type, op == tuttiAvg ? value / ranks : value, element);
  const bool representable = std::fabs(value) < 0x1p62;
  int64_t number = representable ? static_cast<int64_t>(value) : 0;
  if (op == tuttiAvg) {
    std::byte wrapped[8] = {};
    std::memcpy(wrapped, &number, type.bytes);
    number = static_cast<int64_t>(decode(type, wrapped)) / ranks;
  }
  std::memcpy(element, &number, type.bytes);
}

class Reduction {
 public:
  Reduction(const DataType& type, tuttiRedOp_t op, int ranks)
      : type_(type), op_(op), ranks_(ranks), count_(std::max<size_t>(64, 4 * ranks_)) {}

  /// The wrong elements of a result to which every rank has contributed what `fault` left of it.
  size_t wrong_with(const std::function<void(size_t, std::vector<double>&)>& fault) const {
    std::vector<std::byte> output(count_ * type_.bytes);
    for (size_t index = 0; index < count_; ++index) {
      std::vector<double> values = right_[index];
      fault(index, values);
      store(type_, op_, ranks_, folded(type_, op_, values), output.data() + index * type_.bytes);
    }
    const Block blocks[] = {{Block::kEveryRank, 0, count_}};
    return pattern_.check(blocks, output.data()).count;
  }

  void expect_faults_seen(int rank) const {
    const auto at = static_cast<size_t>(rank);
    const auto next = static_cast<size_t>((rank + 1) % ranks_);
    EXPECT_GT(wrong_with([&](size_t, auto& values) { values.erase(values.begin() + rank); }), 0u)
        << "rank " << rank << " is missing";
    EXPECT_GT(wrong_with([&](size_t, auto& values) { values[at] = values[next]; }), 0u)
        << "rank " << next << " stands for rank " << rank;
    EXPECT_GT(wrong_with([&](size_t index, auto& values) { values[at] = stale_[index][at]; }), 0u)
        << "rank " << rank << " gave what it had in an earlier call";
    const Logic logic = logic_of(type_, op_);
    const bool once =
        op_ == tuttiMax || op_ == tuttiMin || logic == Logic::kAnd || logic == Logic::kOr;
    if (once) return;  // what they do twice is done once
    EXPECT_GT(wrong_with([&](size_t, auto& values) { values.push_back(values[at]); }), 0u)
        << "rank " << rank << " counts twice";
  }

  void expect_stale_seen() const {
    EXPECT_GT(wrong_with([&](size_t index, auto& values) { values = stale_[index]; }), 0u)
        << "the result is that of an earlier call";
  }

  void expect_right() const {
    EXPECT_EQ(wrong_with([](size_t, auto&) {}), 0u);
  }

  /// Whether the arithmetic of the type leaves anything to see.
  bool has_results() const {
    if (op_ != tuttiAvg || type_.is_float || type_.bytes > 1) return true;
    return ranks_ <= (type_.is_signed ? 127 : 255);  // more: every sum that fits is cut to 0
  }

 private:
  const DataType& type_;
  const tuttiRedOp_t op_;
  const int ranks_;
  const size_t count_;
  const Pattern pattern_{type_, op_, ranks_, kSeed};
  const Table right_ = contributions_of(pattern_, ranks_, count_);
  const Table stale_ = contributions_of(Pattern(type_, op_, ranks_, kSeed - 1), ranks_, count_);
};

// The tests ask which faults the results tell apart, which sanitizers cannot see, so fewer numbers
// do there.
std::vector<int> numbers_of_ranks() {
  if (testing_support::kSanitized) return {2, 3, 8, 61};
  return {2, 3, 4, 5, 8, 20, 61, 127, 128};
}

TEST(PatternFaultsAlone, OfAnyRankAreSeenInEveryTypeAndOperation) {
  for (const DataType& type : all_data_types()) {
    for (const ReduceOp& op : all_reduce_ops()) {
      if (!is_defined(type, op.id)) continue;
      for (const int ranks : numbers_of_ranks()) {
        SCOPED_TRACE(std::string(type.name) + " " + op.name + " " + std::to_string(ranks));
        const Reduction reduction(type, op.id, ranks);
        reduction.expect_right();
        if (!reduction.has_results()) continue;
        // Some of every residue, as every so many ranks count at the same index.
        const int last = std::min(ranks, 8);
        for (int rank = 0; rank < last; ++rank) reduction.expect_faults_seen(rank);
        for (const int rank : {ranks / 2, ranks - 1}) reduction.expect_faults_seen(rank);
        reduction.expect_stale_seen();
      }
    }
  }
}

TEST(PatternFaultsAlone, WhatWasNotWrittenIsLikeNoResult) {
  for (const DataType& type : all_data_types()) {
    for (const ReduceOp& op : all_reduce_ops()) {
      if (!is_defined(type, op.id)) continue;
      for (const int ranks : {1, 2, 3, 8, 61, 256}) {
        SCOPED_TRACE(std::string(type.name) + " " + op.name + " " + std::to_string(ranks));
        const Pattern pattern(type, op.id, ranks, kSeed);
        std::vector<std::byte> output(Pattern::kPeriod * type.bytes);
        pattern.poison(output.data(), Pattern::kPeriod);
        const Block result[] = {{Block::kEveryRank, 0, Pattern::kPeriod}};
        const Block copy[] = {{ranks - 1, 0, Pattern::kPeriod}};
        EXPECT_EQ(pattern.check(result, output.data()).count, Pattern::kPeriod);
        EXPECT_EQ(pattern.check(copy, output.data()).count, Pattern::kPeriod);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::perf
