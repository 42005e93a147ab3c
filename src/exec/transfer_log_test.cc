#include "src/exec/transfer_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::exec {
namespace {

using Entries = std::vector<TransferLog::CalledEntry>;

CalledTransfer of_bytes(uint64_t bytes) { return {.bytes = bytes}; }

/// The two ends of a pair.
class TransferLogs : public ::testing::Test {
 protected:
  Entries sent_{TransferLog::kEntries}, received_{TransferLog::kEntries};
  TransferLog source_{sent_.data()}, target_{received_.data()};
};

TEST_F(TransferLogs, TheSecondOfTwoEndsFindsTheDifference) {
  EXPECT_EQ(source_.begin(of_bytes(400)), 1u);
  EXPECT_FALSE(source_.compare(received_.data(), 1));
  EXPECT_EQ(target_.begin(of_bytes(404)), 1u);
  const auto found = target_.compare(sent_.data(), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 1u);
  EXPECT_EQ(found->mine, of_bytes(404));
  EXPECT_EQ(found->theirs, of_bytes(400));
  EXPECT_EQ(transfers_text("rank 1", found->theirs, "rank 0", found->mine),
            "rank 1: send of 400 bytes; rank 0: recv of 404 bytes");
}

TEST_F(TransferLogs, SlotsOfGraphsAreComparedAndNeverTakenForBytes) {
  const CalledTransfer sent{.bytes = uint64_t{1} << 39, .slot = 1};
  source_.begin(sent);
  target_.begin({.bytes = sent.bytes});
  const auto found = target_.compare(sent_.data(), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->theirs, sent);
  EXPECT_EQ(found->mine.slot, 0);
  EXPECT_EQ(found->mine.bytes, sent.bytes);
}

TEST_F(TransferLogs, MarksOfRegisteredMemoryAreComparedAndNeverTakenForBytes) {
  const CalledTransfer sent{.bytes = (uint64_t{1} << 40) - 1, .slot = 7, .mark = 2047};
  source_.begin(sent);
  target_.begin({.bytes = sent.bytes, .slot = 7, .mark = 2046});
  const auto found = target_.compare(sent_.data(), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->theirs, sent);
  EXPECT_EQ(found->mine.mark, 2046u);
}

TEST_F(TransferLogs, OneThatGoesThroughTheHostDiffersFromOneThatDoesNot) {
  source_.begin({.bytes = 8, .by_host = true});
  target_.begin({.bytes = 8});
  const auto found = target_.compare(sent_.data(), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(transfers_text("rank 0", found->theirs, "rank 1", found->mine),
            "rank 0: send of 8 bytes, whose options ask for the engine host; rank 1: recv of 8 "
            "bytes");
}

TEST_F(TransferLogs, TellWhetherTheOtherEndHasBegunATransfer) {
  EXPECT_FALSE(TransferLog::has_begun(sent_.data(), 1));
  for (uint32_t i = 0; i < TransferLog::kEntries + 2; ++i) source_.begin(of_bytes(8));
  EXPECT_TRUE(TransferLog::has_begun(sent_.data(), 1));
  EXPECT_TRUE(TransferLog::has_begun(sent_.data(), TransferLog::kEntries + 2));
  EXPECT_FALSE(TransferLog::has_begun(sent_.data(), TransferLog::kEntries + 3));
}

TEST_F(TransferLogs, EqualOnesDoNotDifferHoweverFarOneEndIsAhead) {
  for (uint64_t i = 0; i < 3 * TransferLog::kEntries; ++i) source_.begin(of_bytes(i));
  for (uint64_t i = 0; i < 3 * TransferLog::kEntries; ++i) {
    EXPECT_FALSE(target_.compare(sent_.data(), target_.begin(of_bytes(i))));
  }
  EXPECT_FALSE(source_.compare_last(received_.data(), 64));
}

TEST_F(TransferLogs, AShareOfAVectorCallIsNoReceive) {
  source_.begin({.bytes = 8, .part_of = schedule::Collective::kAllToAll});
  target_.begin(of_bytes(8));
  const auto found = source_.compare_last(received_.data(), 64);
  ASSERT_TRUE(found);
  EXPECT_EQ(transfers_text("rank 1", found->mine, "rank 0", found->theirs),
            "rank 1: all_to_all_v with a share of 8 bytes; rank 0: recv of 8 bytes");
}

TEST_F(TransferLogs, AGroupOnOneSideOnlyIsADifference) {
  source_.begin({.bytes = 8, .in_exchange = true});
  target_.begin(of_bytes(8));
  const auto found = source_.compare_last(received_.data(), 64);
  ASSERT_TRUE(found);
  EXPECT_EQ(transfers_text("a", found->mine, "b", found->theirs),
            "a: send of 8 bytes, in a group with much the other way; b: recv of 8 bytes");
}

TEST_F(TransferLogs, ADifferenceThatWasWrittenOverShowsLater) {
  source_.begin(of_bytes(1));
  for (uint32_t i = 0; i < TransferLog::kEntries; ++i) source_.begin(of_bytes(8));
  EXPECT_FALSE(target_.compare(sent_.data(), target_.begin(of_bytes(2))));
  const auto found = target_.compare(sent_.data(), target_.begin(of_bytes(8)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->mine, found->theirs);
  EXPECT_NE(transfers_text("a", found->theirs, "b", found->mine).find("one before it"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::exec
