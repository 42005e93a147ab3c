// Rings: training_systems 3.9 (T1, T2).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/ring.h"

namespace tutti::runtime {
namespace {

double whole_ms(const Timeline& timeline) {
  EXPECT_TRUE(check(timeline).empty());
  return milliseconds(summarize(timeline, simulate(timeline)).makespan);
}

RingSpec paper() {
  RingSpec spec;
  spec.nodes = 4;
  spec.gpus = 8;
  spec.prologue = Nanoseconds(1'130'000 + 2'080'000);
  return spec;
}

// 3.9 (e), T1.
TEST(RuntimeRing, TwoLevelsTakeWhatTheLatencySheetSays) {
  EXPECT_DOUBLE_EQ(whole_ms(ring(paper())), 34.10);
  EXPECT_DOUBLE_EQ(whole_ms(two_level_ring(paper())), 19.53);
  // The outer ring hides as long as a hop between nodes takes less than the inner ring; messages go
  // out and come in one after the other.
  RingSpec slow = paper();
  slow.inter = Nanoseconds(8 * 510'000 / 2);
  EXPECT_DOUBLE_EQ(whole_ms(two_level_ring(slow)), 19.53);
  slow.inter = Nanoseconds(8 * 510'000);
  EXPECT_GT(whole_ms(two_level_ring(slow)), 20);
}

TEST(RuntimeRing, RefusesRingsWithoutRanks) {
  RingSpec spec;
  spec.nodes = 0;
  EXPECT_REFUSED(ring(spec), "1 or more of each");
  EXPECT_REFUSED(two_level_ring(spec), "1 or more of each");
  spec.nodes = 1;
  spec.intra = Nanoseconds(-1);
  EXPECT_REFUSED(ring(spec), "negative");
}

void expect_balance(std::vector<int64_t> offsets, const RingBalance& stripes,
                    const RingBalance& pairs) {
  const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
  const RingBalance a = ring_balance(striped(128, 8, 1), offsets);
  const RingBalance b = ring_balance(zigzag(128, 8), offsets);
  EXPECT_EQ(rounded(a.worker), stripes.worker);
  EXPECT_EQ(rounded(a.time), stripes.time);
  EXPECT_EQ(rounded(b.worker), pairs.worker);
  EXPECT_EQ(rounded(b.time), pairs.time);
}

// 3.9 (e), T2: stripes make slashes even, pairs dense masks.
TEST(RuntimeRing, StripesBalanceSlashesAndPairsBalanceDenseMasks) {
  expect_balance({0, 1, 2, 3, 4, 5, 6, 7}, {1.028, 1.028}, {1.028, 1.253});
  expect_balance({0, 1, 2, 3, 16, 33}, {1.010, 1.010}, {1.077, 1.414});
  // The reference prints this mask as 0-2, 40, 48, 56; its numbers are those of 0-3.
  expect_balance({0, 1, 2, 3, 40, 48, 56}, {1.008, 1.008}, {1.201, 1.716});
  std::vector<int64_t> dense(128);
  std::iota(dense.begin(), dense.end(), 0);
  const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
  EXPECT_EQ(rounded(ring_balance(striped(128, 8, 1), dense).worker), 1.054);
  EXPECT_EQ(rounded(ring_balance(zigzag(128, 8), dense).worker), 1.000);
  EXPECT_REFUSED(ring_balance(zigzag(128, 8), std::vector<int64_t>{3, 2}), "not ascending");
  EXPECT_REFUSED(ring_balance(zigzag(128, 8), std::vector<int64_t>{128}), "below 128 blocks");
  EXPECT_REFUSED(ring_balance(replicated(8, 2), std::vector<int64_t>{0}), "give each one");
}

}  // namespace
}  // namespace tutti::runtime
