#include "src/engines/streams/capture_comparison.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::engines::streams {
namespace {

constexpr int kRanks = 3;

/// Ranks whose calls are their counts.
class CaptureComparisonTest : public ::testing::Test {
 protected:
  CaptureComparisonTest() {
    for (int rank = 0; rank < kRanks; ++rank) {
      memory_.push_back(std::make_unique<CaptureEntry[]>(CaptureEntry::kEntries));
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      CaptureComparison::CapturingRanks ranks;
      for (const auto& one : memory_) ranks.entries.push_back(one.get());
      ranks.rank = rank;
      ranks.name_of = [](int other) { return "rank " + std::to_string(other); };
      ranks_.push_back(std::make_unique<CaptureComparison>(std::move(ranks)));
    }
  }

  std::string capture(size_t rank, uint64_t which, uint64_t count) {
    diagnosis::DescribedCall call;
    call.collective = schedule::Collective::kAllReduce;
    call.count = count;
    return ranks_[rank]->announce({which, &call, static_cast<uint32_t>(count), {}}).value_or("");
  }
  std::string send(size_t rank, uint64_t which, uint32_t peer, uint64_t bytes, bool is_send) {
    exec::Transfer one;
    one.peer = peer;
    one.is_send = is_send;
    one.bytes = bytes;
    return ranks_[rank]->announce({which, nullptr, 0, {&one, 1}}).value_or("");
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::vector<std::unique_ptr<CaptureEntry[]>> memory_;
  std::vector<std::unique_ptr<CaptureComparison>> ranks_;
};

TEST_F(CaptureComparisonTest, EqualCapturesAreEqualInWhicheverOrderRanksMakeThem) {
  for (uint64_t graph = 1; graph < 40; ++graph) {
    for (uint64_t call = 0; call < 5; ++call) EXPECT_EQ(capture(0, graph, call), "");
  }
  for (size_t rank = 1; rank < kRanks; ++rank) {
    for (uint64_t graph = 1; graph < 40; ++graph) {
      for (uint64_t call = 0; call < 5; ++call) EXPECT_EQ(capture(rank, 100 + graph, call), "");
    }
  }
  for (const auto& rank : ranks_) EXPECT_FALSE(rank->find());
}

TEST_F(CaptureComparisonTest, TheSecondOfTwoRanksNamesBothCallsOnceForACapture) {
  EXPECT_EQ(capture(0, 1, 4), "");
  EXPECT_EQ(capture(0, 1, 8), "");
  EXPECT_EQ(capture(1, 7, 4), "");
  const std::string text = capture(1, 7, 9);
  EXPECT_TRUE(has(text, "call 2 of captured graph 1 differs: rank 1: all_reduce of 9")) << text;
  EXPECT_TRUE(has(text, "rank 0: all_reduce of 8")) << text;
  EXPECT_EQ(capture(1, 7, 10), "");
  EXPECT_TRUE(has(ranks_[0]->find().value_or(""), "rank 1: all_reduce of 9"));
}

TEST_F(CaptureComparisonTest, ACaptureThatIsGivenUpAndMadeAgainIsNoDifference) {
  for (const uint64_t graph : {1, 2, 3}) EXPECT_EQ(capture(0, graph, 10 * graph), "");
  EXPECT_EQ(capture(1, 1, 10), "");
  EXPECT_EQ(capture(1, 2, 10), "");  // once more
  EXPECT_EQ(capture(1, 3, 20), "");
  EXPECT_EQ(capture(1, 4, 30), "");
  EXPECT_FALSE(ranks_[0]->find());
  EXPECT_FALSE(ranks_[1]->find());
}

TEST_F(CaptureComparisonTest, ACallThatAPeerHasLessIsNamedWhenARunWaitsForIt) {
  EXPECT_EQ(capture(0, 1, 4), "");
  EXPECT_EQ(capture(0, 1, 8), "");
  EXPECT_EQ(capture(1, 1, 4), "");
  EXPECT_FALSE(ranks_[1]->find());
  const std::string text = ranks_[0]->find().value_or("");
  EXPECT_TRUE(has(text, "call 2 of captured graph 1 differs: rank 1 has captured none")) << text;
}

TEST_F(CaptureComparisonTest, TransfersAreComparedByTheirTwoRanks) {
  EXPECT_EQ(send(0, 1, 1, 400, true), "");
  EXPECT_EQ(send(0, 1, 2, 8, true), "");
  EXPECT_EQ(send(2, 5, 0, 8, false), "");
  const std::string text = send(1, 6, 0, 404, false);
  EXPECT_TRUE(has(text, "rank 0: send of 400 bytes; rank 1: recv of 404 bytes")) << text;
  EXPECT_FALSE(ranks_[2]->find());
}

TEST_F(CaptureComparisonTest, WhatWasWrittenOverIsNoDifference) {
  for (uint64_t call = 0; call < CaptureEntry::kEntries + 10; ++call) {
    EXPECT_EQ(capture(0, 1, call), "");
  }
  EXPECT_EQ(capture(1, 1, 99999), "");
}

}  // namespace
}  // namespace tutti::engines::streams
