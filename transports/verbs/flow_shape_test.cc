// How many bytes are on the way at once follows from round trip and rate, unless it is set.
#include "transports/verbs/flow_shape.h"

#include <gtest/gtest.h>

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(VerbsFlowShape, OfANearPeerIsSmall) {
  const FlowShape shape = shape_for({}, 10'000, 50, {});
  EXPECT_EQ(shape, FlowShape());
  EXPECT_EQ(shape.outstanding(), 4 * kMiB);
  EXPECT_EQ(describe(shape), "2 queue pairs, segments of 64KB, 4MB on the way");
}

TEST(VerbsFlowShape, GrowsWithTheRoundTripTimesTheRate) {
  // 400 Gbit/s over 200 us there and back.
  const FlowShape far = shape_for({.latency_ns = 200'000, .bytes_per_ns = 50}, 0, 100, {});
  EXPECT_GE(far.outstanding(), uint64_t{2 * 400'000 * 50});
  EXPECT_LT(far.outstanding(), uint64_t{4 * 400'000 * 50});
  EXPECT_GT(far.pairs, 2u);
  const FlowShape farther = shape_for({.latency_ns = 2e6, .bytes_per_ns = 50}, 0, 50, {});
  EXPECT_EQ(farther.outstanding(), 256 * kMiB) << "there is a bound";
  EXPECT_EQ(farther.pairs, 16u);
  // The rate is the thinnest of what the description and the ports say.
  EXPECT_EQ(shape_for({.latency_ns = 2e6, .bytes_per_ns = 0.01}, 0, 50, {}), FlowShape());
  EXPECT_EQ(shape_for({.latency_ns = 2e6, .bytes_per_ns = 50}, 0, 0.01, {}), FlowShape());
}

TEST(VerbsFlowShape, TheMeasuredRoundTripCountsWhereNobodyDescribedOne) {
  EXPECT_EQ(shape_for({}, 400'000, 50, {}), shape_for({.latency_ns = 200'000}, 10'000, 50, {}));
}

TEST(VerbsFlowShape, WhatIsSetStays) {
  RdmaSettings settings;
  settings.queue_pairs = 8;
  settings.segment_bytes = 512 * 1024;
  settings.outstanding_bytes = 64 * kMiB;
  const FlowShape shape = shape_for({}, 0, 0, settings);
  EXPECT_EQ(shape, (FlowShape{8, 512 * 1024, 16}));
  settings.outstanding_bytes = 1;
  EXPECT_EQ(shape_for({}, 0, 0, settings).depth, 2u);
}

TEST(VerbsFlowShape, BothEndsComeToOne) {
  EXPECT_EQ(larger_of({2, 1024, 8}, {4, 512, 2}), (FlowShape{4, 1024, 8}));
}

}  // namespace
}  // namespace tutti::transports::verbs
