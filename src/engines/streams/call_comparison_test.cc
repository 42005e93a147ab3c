#include "src/engines/streams/call_comparison.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/engines/streams/captured_memory.h"

namespace tutti::engines::streams {
namespace {

constexpr size_t kRanks = 3;

/// The ranks' memory, zeros at first, as a mapping is.
struct Memory {
  Memory() {
    std::vector<std::byte*> bases;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const size_t lines = CapturedMemory::bytes(kRanks) / sizeof(CapturedPage::SharedLine);
      lines_.push_back(std::make_unique<CapturedPage::SharedLine[]>(lines));
      bases.push_back(reinterpret_cast<std::byte*>(lines_.back().get()));
      // Logs lie in what is padding of lines.
      std::memset(static_cast<void*>(lines_.back().get()), 0,
                  lines * sizeof(CapturedPage::SharedLine));
    }
    mapped = CapturedMemory(std::move(bases));
  }
  CapturedMemory mapped;

 private:
  std::vector<std::unique_ptr<CapturedPage::SharedLine[]>> lines_;
};

std::unique_ptr<CallComparison> rank_of(const Memory& memory, int rank) {
  ComparedRanks ranks;
  for (size_t i = 0; i < kRanks; ++i) ranks.words.push_back(memory.mapped.call_words(i));
  ranks.places = CapturedMemory::kRuns;
  ranks.rank = rank;
  ranks.pair_bytes = 1 << 20;
  ranks.name_of = [](int other) { return "rank " + std::to_string(other); };
  ranks.call_text = "call {} of a test";
  return std::make_unique<CallComparison>(std::move(ranks));
}

diagnosis::DescribedCall all_reduce(uint64_t count) {
  diagnosis::DescribedCall call;
  call.collective = schedule::Collective::kAllReduce;
  call.count = count;
  return call;
}

class CallComparisonTest : public ::testing::Test {
 protected:
  Memory memory_;
  std::unique_ptr<CallComparison> ranks_[kRanks] = {rank_of(memory_, 0), rank_of(memory_, 1),
                                                    rank_of(memory_, 2)};
};

TEST_F(CallComparisonTest, EqualCallsAreEqualHoweverFarARankIsAhead) {
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(ranks_[0]->announce(7, all_reduce(8)));
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(ranks_[1]->announce(7, all_reduce(8)));
  EXPECT_FALSE(ranks_[0]->find_recent());
  EXPECT_EQ(ranks_[1]->number(), 200u);
  EXPECT_EQ(ranks_[2]->last_of(0), 200u);
}

TEST_F(CallComparisonTest, TheSecondOfTwoDifferentCallsFindsBothAndNamesTheField) {
  EXPECT_FALSE(ranks_[0]->announce(1, all_reduce(4)));
  EXPECT_FALSE(ranks_[1]->announce(1, all_reduce(4)));
  EXPECT_FALSE(ranks_[0]->announce(7, all_reduce(8)));
  const auto found = ranks_[1]->announce(9, all_reduce(9));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->peer, 0);
  const std::string text(found->status.message());
  EXPECT_NE(text.find("call 2 of a test differs: rank 1: all_reduce of 9"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 0: all_reduce of 8"), std::string::npos) << text;
  const auto later = ranks_[0]->find_recent();  // the first one, when it looks again
  ASSERT_TRUE(later);
  EXPECT_EQ(later->peer, 1);
}

TEST_F(CallComparisonTest, ADifferenceOfTheCallBeforeIsFoundToo) {
  EXPECT_FALSE(ranks_[0]->announce(7, all_reduce(8)));
  EXPECT_FALSE(ranks_[0]->announce(1, all_reduce(4)));
  EXPECT_TRUE(ranks_[2]->announce(9, all_reduce(9)));
  const auto found = ranks_[2]->announce(1, all_reduce(4));
  ASSERT_TRUE(found);
  EXPECT_NE(std::string(found->status.message()).find("call 1 "), std::string::npos);
}

TEST_F(CallComparisonTest, EndsOfTransfersThatDifferAreFoundAndALateOneIsNamed) {
  exec::Transfer send;
  send.peer = 1;
  send.is_send = true;
  send.bytes = 400;
  exec::Transfer receive = send;
  receive.peer = 0;
  receive.is_send = false;
  EXPECT_FALSE(ranks_[0]->has_calls());
  EXPECT_FALSE(ranks_[0]->announce({&send, 1}, {}));
  EXPECT_TRUE(ranks_[0]->has_calls());
  EXPECT_EQ(ranks_[0]->find_late(0, {&send, 1}), 1);
  receive.bytes = 404;
  const auto found = ranks_[1]->announce({&receive, 1}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->peer, 0);
  EXPECT_FALSE(ranks_[0]->find_late(0, {&send, 1}));
}

TEST_F(CallComparisonTest, ARankThatHasNotMadeACallIsLate) {
  EXPECT_FALSE(ranks_[0]->announce(7, all_reduce(8)));
  EXPECT_FALSE(ranks_[1]->announce(7, all_reduce(8)));
  EXPECT_EQ(ranks_[0]->find_late(1, {}), 2);
  EXPECT_TRUE(ranks_[0]->has_made(1, 1));
  EXPECT_FALSE(ranks_[0]->has_made(2, 1));
}

}  // namespace
}  // namespace tutti::engines::streams
