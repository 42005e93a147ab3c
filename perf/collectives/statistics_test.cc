#include "perf/collectives/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace tutti::perf {
namespace {

TEST(Statistics, MedianOfOddAndEvenNumbers) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> values = {40, 10, 20, 30, 50};
  EXPECT_EQ(quantile(values, 0), 10);
  EXPECT_EQ(quantile(values, 1), 50);
  EXPECT_EQ(quantile(values, 0.25), 20);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 46);
}

TEST(Statistics, SummaryOfAFewValues) {
  const Summary summary = summarize(std::vector<double>{4, 2, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(summary.least, 2);
  EXPECT_EQ(summary.greatest, 9);
  EXPECT_DOUBLE_EQ(summary.mean, 5);
  EXPECT_DOUBLE_EQ(summary.deviation, 2);
  EXPECT_DOUBLE_EQ(summary.deviation_percent(), 40);
  EXPECT_DOUBLE_EQ(summary.p50, 4.5);
  EXPECT_LE(summary.p95, summary.p99);
}

TEST(Statistics, IntervalOfEqualValuesIsAPoint) {
  const std::vector<double> values(9, 2.5);
  const Interval interval = median_interval(values);
  EXPECT_EQ(interval.low, 2.5);
  EXPECT_EQ(interval.high, 2.5);
}

TEST(Statistics, IntervalIsReproducibleAndInsideTheRange) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Interval one = median_interval(values);
  const Interval two = median_interval(values);
  EXPECT_EQ(one.low, two.low);
  EXPECT_EQ(one.high, two.high);
  EXPECT_GE(one.low, 1);
  EXPECT_LT(one.low, 5);
  EXPECT_GT(one.high, 5);
  EXPECT_LE(one.high, 9);
}

TEST(Statistics, OneOutlierDoesNotMoveTheInterval) {
  const std::vector<double> values = {1, 1, 1, 1, 1, 1, 1, 1, 1000};
  EXPECT_EQ(median_interval(values).high, 1);
}

// The interval's promise: in 90 of 100 experiments it holds the true median. The bootstrap of a
// median of few values is known to be somewhat off, hence the wide bounds.
TEST(Statistics, IntervalHoldsTheTrueMedianAboutAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(10, 2);
  Bootstrap bootstrap;
  bootstrap.draws = 500;
  int held = 0;
  constexpr int kExperiments = 400;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    std::vector<double> values(21);
    for (double& value : values) value = normal(random);
    const Interval interval = median_interval(values, bootstrap);
    held += interval.low <= 10 && 10 <= interval.high;
  }
  EXPECT_GT(held, kExperiments * 80 / 100);
  EXPECT_LT(held, kExperiments * 98 / 100);
}

}  // namespace
}  // namespace tutti::perf
