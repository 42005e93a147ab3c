#include "src/plan/cursor.h"

#include <gtest/gtest.h>

namespace tutti::plan {
namespace {

constexpr uint64_t kCell = kCellStride;
constexpr uint64_t part(uint64_t cell, uint64_t index) {
  return cell * kCell + kTinyBegin + index * kTinyStride;
}

TEST(CellCursor, TinyFramesThatFollowEachOtherShareACell) {
  CellCursor cursor(8);
  for (uint64_t cell : {0, 1}) {
    for (uint64_t index = 0; index < kTinyParts; ++index) {
      EXPECT_EQ(cursor.take(1, true, 1), part(cell, index));
    }
  }
}

TEST(CellCursor, OtherFramesHaveCellsOfTheirOwn) {
  CellCursor cursor(8);
  EXPECT_EQ(cursor.take(1, true, 1), part(0, 0));
  EXPECT_EQ(cursor.take(1, true, 2), part(0, 1));
  EXPECT_EQ(cursor.take(3, false, 3), 1 * kCell);
  EXPECT_EQ(cursor.take(1, true, 4), part(4, 0));
  EXPECT_EQ(cursor.take(1, false, 5), 5 * kCell);
  EXPECT_EQ(cursor.take(1, true, 6), part(6, 0));
}

// A region may be overwritten once every rank has passed all frames in it, those that share its
// last cell included.
TEST(CellCursor, ARegionIsReleasedBehindItsLastTinyFrame) {
  CellCursor cursor(1, 2);
  uint64_t progress = 1;
  EXPECT_FALSE(cursor.credited()) << "the first region is entered as any other";
  cursor.set_credited();
  for (uint64_t index = 0; index < kTinyParts; ++index) {
    EXPECT_EQ(cursor.take(1, true, progress++), part(0, index));
    EXPECT_TRUE(cursor.credited());
  }
  EXPECT_EQ(cursor.take(1, true, progress), part(1, 0));
  EXPECT_FALSE(cursor.credited());
  EXPECT_EQ(cursor.required(), 0u);
  cursor.set_credited();
  EXPECT_EQ(cursor.take(1, false, ++progress), 0u);
  EXPECT_FALSE(cursor.credited());
  EXPECT_EQ(cursor.required(), 1u + kTinyParts);
}

// A frame that is longer than a region begins at the first of the regions that it spans, which
// follow each other, and waits for the readers of all of them.
TEST(RingCursor, LongFramesSpanRegions) {
  RingCursor ring(100, 4);
  EXPECT_EQ(ring.take(60, 1), 0u);
  EXPECT_EQ(ring.take(60, 2), 100u);
  EXPECT_EQ(ring.take(150, 3), 200u);
  EXPECT_FALSE(ring.credited());
  EXPECT_EQ(ring.required(), 0u) << "nothing has lain there";
  ring.set_credited();
  EXPECT_EQ(ring.take(10, 4), 0u) << "behind it there is room for nothing";
  EXPECT_EQ(ring.required(), 2u);
  EXPECT_EQ(ring.take(250, 5), 100u);
  EXPECT_FALSE(ring.credited());
  EXPECT_EQ(ring.required(), 4u) << "the last reader of the second to fourth region";
}

TEST(RingCursor, AFrameOfTheWholeRingWaitsForTheOneBeforeIt) {
  RingCursor ring(100, 2);
  for (uint64_t progress = 1; progress < 5; ++progress) {
    EXPECT_EQ(ring.take(200, progress), 0u);
    EXPECT_FALSE(ring.credited());
    EXPECT_EQ(ring.required(), progress);
    ring.set_credited();
  }
  EXPECT_EQ(ring.take(50, 5), 0u);
  EXPECT_EQ(ring.required(), 5u);
  EXPECT_EQ(ring.take(60, 6), 100u);
  EXPECT_EQ(ring.required(), 5u);
}

}  // namespace
}  // namespace tutti::plan
