#include "src/schedule/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::schedule {
namespace {

Shape shape_of(Collective collective, int ranks, Partition input, Partition output) {
  Shape shape;
  shape.collective = collective;
  shape.ranks = ranks;
  shape.input = std::move(input);
  shape.output = std::move(output);
  return shape;
}

Partition at(std::vector<Fraction> bounds) {
  const auto blocks = static_cast<uint32_t>(bounds.size() - 1);
  return {blocks, std::move(bounds)};
}

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  const auto uneven = at({{0, 1}, {1, 5}, {1, 2}, {1, 2}, {3, 4}, {1, 1}});
  for (int ranks : {1, 2, 3, 4, 7}) {
    const auto n = static_cast<uint32_t>(ranks);
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (collective == Collective::kBarrier) continue;
      result.push_back(shape_of(collective, ranks, Partition::equal(n), Partition::equal(2 * n)));
      result.push_back(shape_of(collective, ranks, Partition::equal(1), Partition::equal(3)));
      result.push_back(shape_of(collective, ranks, uneven, Partition::equal(n)));
    }
  }
  return result;
}

std::vector<Block> blocks_of(const Shape& shape) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < shape.input.blocks; ++i) blocks.push_back(input(i));
  for (uint32_t i = 0; i < shape.output.blocks; ++i) blocks.push_back(output(i));
  return blocks;
}

TEST(Fraction, IsReduced) {
  EXPECT_EQ(Fraction::of(6, 8), (Fraction{3, 4}));
  EXPECT_EQ(Fraction::of(0, 8), (Fraction{0, 1}));
  EXPECT_EQ(Fraction::of(8, 8), (Fraction{1, 1}));
}

TEST(Layout, BoundariesAreFloors) {
  const Shape shape = shape_of(Collective::kAllReduce, 2, Partition::equal(3), Partition::equal(3));
  const Layout layout(shape, 10);
  EXPECT_EQ(layout.extent(input(0)).length, 3u);
  EXPECT_EQ(layout.extent(input(1)).offset, 3u);
  EXPECT_EQ(layout.extent(input(1)).length, 3u);
  EXPECT_EQ(layout.extent(input(2)).length, 4u);
  EXPECT_EQ(layout.longest(), 4u);
}

TEST(Layout, BuffersOfTheCollectives) {
  const auto elements = [](Collective collective, int rank) {
    Shape shape = shape_of(collective, 4, Partition::equal(1), Partition::equal(1));
    shape.root = 2;
    return std::pair(input_elements(shape, rank, 5), output_elements(shape, rank, 5));
  };
  EXPECT_EQ(elements(Collective::kAllReduce, 1), std::pair(uint64_t{5}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kAllGather, 1), std::pair(uint64_t{5}, uint64_t{20}));
  EXPECT_EQ(elements(Collective::kReduceScatter, 1), std::pair(uint64_t{20}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kAllToAll, 1), std::pair(uint64_t{20}, uint64_t{20}));
  EXPECT_EQ(elements(Collective::kBroadcast, 1), std::pair(uint64_t{0}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kBroadcast, 2), std::pair(uint64_t{5}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kReduce, 1), std::pair(uint64_t{5}, uint64_t{0}));
  EXPECT_EQ(elements(Collective::kReduce, 2), std::pair(uint64_t{5}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kGather, 1), std::pair(uint64_t{5}, uint64_t{0}));
  EXPECT_EQ(elements(Collective::kGather, 2), std::pair(uint64_t{5}, uint64_t{20}));
  EXPECT_EQ(elements(Collective::kScatter, 1), std::pair(uint64_t{0}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kScatter, 2), std::pair(uint64_t{20}, uint64_t{5}));
  EXPECT_EQ(elements(Collective::kBarrier, 1), std::pair(uint64_t{0}, uint64_t{0}));
}

TEST(Layout, BlocksCoverTheirBufferWithoutGaps) {
  for (const Shape& shape : shapes()) {
    for (uint64_t count = 0; count <= 100; ++count) {
      const Layout layout(shape, count);
      uint64_t next = 0;
      for (uint32_t i = 0; i < shape.input.blocks; ++i) {
        EXPECT_EQ(layout.extent(input(i)).offset, next);
        next += layout.extent(input(i)).length;
      }
      EXPECT_EQ(next, input_elements(shape, 0, count));
      next = 0;
      uint64_t longest = 0;
      for (uint32_t i = 0; i < shape.output.blocks; ++i) {
        EXPECT_EQ(layout.extent(output(i)).offset, next);
        next += layout.extent(output(i)).length;
        longest = std::max(longest, layout.extent(output(i)).length);
      }
      EXPECT_EQ(next, output_elements(shape, 0, count));
      EXPECT_GE(layout.longest(), longest);
    }
  }
}

TEST(Layout, CountsNear64BitsDoNotOverflow) {
  const Shape shape = shape_of(Collective::kAllReduce, 2, Partition::equal(7), Partition::equal(7));
  const uint64_t count = ~0ull;
  const Layout layout(shape, count);
  uint64_t total = 0;
  for (uint32_t i = 0; i < 7; ++i) total += layout.extent(input(i)).length;
  EXPECT_EQ(total, count);
}

// same_size() speaks about all counts. A root's input stands for everybody's.
TEST(Layout, SameSizeMeansEqualLengthsForEveryCount) {
  size_t same = 0;
  size_t different = 0;
  for (const Shape& shape : shapes()) {
    const auto blocks = blocks_of(shape);
    for (Block a : blocks) {
      for (Block b : blocks) {
        bool equal = true;
        for (uint64_t count = 0; count <= 100; ++count) {
          const Layout layout(shape, count);
          equal = equal && layout.extent(a).length == layout.extent(b).length;
        }
        EXPECT_TRUE(equal || !same_size(shape, a, b));
        same += same_size(shape, a, b) ? 1 : 0;
        different += equal ? 0 : 1;
      }
    }
  }
  EXPECT_GT(same, 0u);
  EXPECT_GT(different, 0u);
}

TEST(Layout, ScratchIsAsLongAsWhatItIsLike) {
  const Shape shape = shape_of(Collective::kAllReduce, 2, Partition::equal(3), Partition::equal(3));
  Schedule schedule;
  schedule.scratch = {output(2), input(0)};
  const Layout layout(shape, 11);
  EXPECT_EQ(layout.length(schedule, Block::of(Space::kScratch, 0)),
            layout.extent(output(2)).length);
  EXPECT_EQ(layout.length(schedule, Block::of(Space::kScratch, 1)), layout.extent(input(0)).length);
}

TEST(Piece, CoversTheBlockOnceInWholeLines) {
  for (uint64_t length = 0; length <= 100; ++length) {
    for (uint64_t slices : {1, 2, 3, 7, 64}) {
      for (uint64_t quantum : {1, 2, 8, 16, 64}) {
        uint64_t next = 0;
        for (uint64_t k = 0; k < slices; ++k) {
          const Extent part = piece(length, k, slices, quantum);
          EXPECT_EQ(part.offset, next);
          EXPECT_TRUE(part.offset % quantum == 0 || part.offset == length);
          next += part.length;
        }
        EXPECT_EQ(next, length);
      }
    }
  }
  EXPECT_EQ(piece(~0ull - 63, 6, 7, 64).offset + piece(~0ull - 63, 6, 7, 64).length, ~0ull - 63);
}

}  // namespace
}  // namespace tutti::schedule
