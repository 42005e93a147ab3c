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

// ---- count vectors ----------------------------------------------------------------------------

TEST(CountVectors, BlocksLieInTheirShares) {
  const Shape shape = shape_of(Collective::kAllToAll, 3, Partition::equal(6), Partition::equal(3));
  CountVectors vectors;
  vectors.input = {5, 0, 4};
  vectors.input_offsets = {10, 3, 0};
  vectors.output = {1, 0, 7};
  vectors.output_offsets = {0, 1, 1};
  vectors.longest = 9;
  const Layout layout(shape, vectors);
  const auto is = [&](Block block, uint64_t offset, uint64_t length) {
    const Extent extent = layout.extent(block);
    return extent.offset == offset && extent.length == length;
  };
  EXPECT_TRUE(is(input(0), 10, 2));
  EXPECT_TRUE(is(input(1), 12, 3));
  EXPECT_EQ(layout.extent(input(2)).length + layout.extent(input(3)).length, 0u);
  EXPECT_TRUE(is(input(4), 0, 2));
  EXPECT_TRUE(is(input(5), 2, 2));
  EXPECT_TRUE(is(output(0), 0, 1));
  EXPECT_TRUE(is(output(2), 1, 7));
  EXPECT_EQ(layout.longest(), 9u);  // of a rank that is not this one
}

TEST(CountVectors, EqualSharesAreAsWithACount) {
  for (const Shape& shape : shapes()) {
    const Traits& traits = traits_of(shape.collective);
    if (!traits.input.parts && !traits.output.parts) continue;
    const auto n = static_cast<uint64_t>(shape.ranks);
    // Others are part of no schedule that the verifier accepts.
    const auto within = [&](const Partition& cut, bool parts, uint32_t i) {
      const uint64_t m = parts ? n : 1;
      const Fraction low = cut.bound(i), high = cut.bound(i + 1);
      return high.num * m <= (low.num * m / low.den + 1) * high.den;
    };
    CountVectors vectors;
    for (uint64_t i = 0; i < n; ++i) {
      for (auto* counts : {&vectors.input, &vectors.output}) counts->push_back(37);
      for (auto* offsets : {&vectors.input_offsets, &vectors.output_offsets}) {
        offsets->push_back(37 * i);
      }
    }
    vectors.longest = 37;
    const Layout by_vectors(shape, vectors), by_count(shape, 37);
    for (Block block : blocks_of(shape)) {
      const bool in = block.space() == Space::kInput;
      if (!within(in ? shape.input : shape.output, (in ? traits.input : traits.output).parts,
                  block.index())) {
        continue;
      }
      EXPECT_EQ(by_vectors.extent(block).length, by_count.extent(block).length);
      if (by_count.extent(block).length == 0) continue;
      EXPECT_EQ(by_vectors.extent(block).offset, by_count.extent(block).offset);
    }
    for (int rank = 0; rank < shape.ranks; ++rank) {
      if (!traits.nests(Space::kInput) && !traits.nests(Space::kOutput)) continue;
      EXPECT_EQ(by_vectors.part_offset(rank), by_count.part_offset(rank));
    }
  }
}

TEST(CountVectors, NoBlockOfAShorterShareIsLongerThanTheLongest) {
  for (const uint32_t lanes : {1u, 2u, 3u, 8u}) {
    const Shape shape =
        shape_of(Collective::kAllGather, 4, Partition::equal(lanes), Partition::equal(4 * lanes));
    for (uint64_t longest = 0; longest < 40; ++longest) {
      CountVectors vectors;
      vectors.output = {longest, longest / 2, longest > 0 ? longest - 1 : 0, 0};
      vectors.output_offsets = {0, 40, 80, 120};
      vectors.input = {longest};
      vectors.input_offsets = {0};
      vectors.longest = longest;
      const Layout layout(shape, vectors);
      for (uint32_t share = 0; share < 4; ++share) {
        uint64_t end = vectors.output_offsets[share];
        for (uint32_t lane = 0; lane < lanes; ++lane) {
          const Extent extent = layout.extent(output(share * lanes + lane));
          EXPECT_EQ(extent.offset, end);
          EXPECT_LE(extent.length, layout.longest());
          end += extent.length;
        }
        EXPECT_EQ(end, vectors.output_offsets[share] + vectors.output[share]);
      }
    }
  }
}

TEST(CountVectors, ScratchIsAsLongAsACountRoundSays) {
  const Shape shape = shape_of(Collective::kAllToAll, 2, Partition::equal(2), Partition::equal(2));
  CountVectors vectors;
  vectors.input = vectors.output = {3, 4};
  vectors.input_offsets = vectors.output_offsets = {0, 3};
  vectors.longest = 9;
  Schedule schedule;
  schedule.scratch = {input(1)};
  const Block scratch = Block::of(Space::kScratch, 0);
  EXPECT_EQ(Layout(shape, vectors).length(schedule, scratch), 4u);
  vectors.scratch = {9};
  EXPECT_EQ(Layout(shape, vectors).length(schedule, scratch), 9u);
}

}  // namespace
}  // namespace tutti::schedule
