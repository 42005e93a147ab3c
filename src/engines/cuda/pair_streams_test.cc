#include "src/engines/cuda/pair_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace tutti::engines::cuda {
namespace {

using exec::Transfer;

constexpr size_t kRanks = 4;
constexpr uint64_t kSlot = 1024;

/// Rank 0 of four, with slots of a KiB.
CountedPairs first_of_four() {
  PairAddresses addresses;
  addresses.slots = PairSlots((kRanks - 1) * PairSlots::kSlots * kSlot, kRanks);
  for (uint64_t peer = 0; peer < kRanks; ++peer) {
    const uint64_t base = (peer + 1) << 32;
    addresses.sends.push_back({base, base + 128, base + 256});
    addresses.receives.push_back({base + (1 << 20), base + 384, base + 512});
  }
  return CountedPairs(nullptr, std::move(addresses));
}

Transfer transfer(bool is_send, uint32_t peer, uint64_t bytes) {
  Transfer made;
  made.is_send = is_send;
  made.peer = peer;
  made.data = reinterpret_cast<std::byte*>(uint64_t{1} << (is_send ? 50 : 51));
  made.bytes = bytes;
  return made;
}

exec::DeviceCounts put(PairStreams& streams, const std::vector<Transfer>& transfers) {
  EXPECT_TRUE(streams.put({}, transfers).ok());
  EXPECT_TRUE(streams.finish(1, 1).ok());
  return streams.counts();
}

TEST(PairSlots, OfAllPairsOfARankLieApart) {
  const PairSlots slots(1 << 20, kRanks);
  EXPECT_EQ(slots.slot_bytes(), (1 << 20) / 3 / 4 / 256 * 256u);
  for (size_t source = 0; source < kRanks; ++source) {
    std::set<uint64_t> places;
    for (size_t target = 0; target < kRanks; ++target) {
      if (target != source) places.insert(slots.offset(source, target));
    }
    EXPECT_EQ(places.size(), kRanks - 1);
    EXPECT_EQ(*places.begin(), 0u);
    EXPECT_LE(*places.rbegin() + slots.pair_bytes(), uint64_t{1} << 20);
  }
}

TEST(PairSlots, NeedRoomAndAPeer) {
  EXPECT_EQ(PairSlots(1000, kRanks).slot_bytes(), 0u);
  EXPECT_EQ(PairSlots(1 << 20, 1).slot_bytes(), 0u);
}

TEST(PairStreams, BothWaysOfAnExchangeShareTheirSteps) {
  CountedPairs streams = first_of_four();
  const auto counts = put(streams, {transfer(true, 1, 2 * kSlot), transfer(false, 1, 2 * kSlot)});
  EXPECT_EQ(counts.copies, 4u);
  EXPECT_EQ(counts.batches, 3u);     // in; out and in; out
  EXPECT_EQ(counts.operations, 7u);  // a word for each copy, two waits for pieces, the end
  EXPECT_EQ(counts.groups, 3u);
}

TEST(PairStreams, ASenderWaitsOnceItsSlotsAreFull) {
  CountedPairs streams = first_of_four();
  EXPECT_EQ(put(streams, {transfer(true, 2, PairSlots::kSlots * kSlot)}).operations,
            PairSlots::kSlots + 1);
  EXPECT_TRUE(streams.awaited().empty());
  EXPECT_EQ(put(streams, {transfer(true, 2, 2 * kSlot)}).operations, 2 + 2 + 1u);
  ASSERT_EQ(streams.awaited().size(), 1u);
  EXPECT_EQ(streams.awaited()[0].peer, 2u);
  EXPECT_TRUE(streams.awaited()[0].sends);
  EXPECT_EQ(streams.awaited()[0].first, 1u);
  EXPECT_EQ(streams.awaited()[0].last, 2u);
  EXPECT_EQ(streams.awaited()[0].step_at(0), 0u);
  EXPECT_EQ(streams.awaited()[0].step_at(1), 1u);
  EXPECT_EQ(streams.awaited()[0].step_at(2), std::nullopt);
  EXPECT_EQ(put(streams, {transfer(true, 3, kSlot)}).operations, 2u);  // its slots are its own
}

TEST(PairStreams, MessagesOfAWayFollowEachOther) {
  CountedPairs streams = first_of_four();
  const auto counts = put(streams, {transfer(false, 1, kSlot + 1), transfer(false, 3, 10),
                                    transfer(false, 1, 5), transfer(false, 1, 0)});
  EXPECT_EQ(counts.copies, 4u);
  EXPECT_EQ(counts.batches, 3u);  // rank 3's message beside the first piece
  ASSERT_EQ(streams.awaited().size(), 2u);
  EXPECT_EQ(streams.awaited()[0].last, 3u);
  EXPECT_EQ(streams.awaited()[0].step, 1u);
  EXPECT_FALSE(streams.awaited()[0].sends);
}

// The peer's 0 is no place, so that transfer is staged, and all receives look for places.
TEST(PairStreams, OfRegisteredMemoryCopyNothingAndWaitForTheReader) {
  CountedPairs streams = first_of_four();
  const std::vector<Transfer> transfers = {
      transfer(true, 1, 3 * kSlot), transfer(true, 2, 2 * kSlot), transfer(false, 1, 2 * kSlot),
      transfer(false, 3, 2 * kSlot), transfer(true, 3, 1)};
  const exec::RegisteredTransfers registered{{5, 5, 5, 5, 0}, {4096, 0, 0, 0, 0}, nullptr};
  EXPECT_TRUE(streams.put({.registered = &registered}, transfers).ok());
  EXPECT_TRUE(streams.finish(1, 1).ok());
  const exec::DeviceCounts& counts = streams.counts();
  EXPECT_EQ(counts.copies, 2u + 1);  // into slots
  EXPECT_EQ(counts.kernels, 2u);     // a piece of both receives each
  // Five places and six signals of sends, four waits and signals of receives, the end of two.
  EXPECT_EQ(counts.operations, 5 + 6 + 4 + 4 + 1 + 1u);
  ASSERT_EQ(streams.awaited().size(), 3u);
  EXPECT_EQ(streams.awaited()[1].peer, 1u);
  EXPECT_TRUE(streams.awaited()[1].sends);
  EXPECT_EQ(streams.awaited()[1].last, 3u);
}

TEST(PlacedPieces, LieWhereTheirWordsSayOrInTheirSlots) {
  const PlacedPiece piece{1, 64, 2, 3};
  EXPECT_EQ(source_of(piece, 5, place_word(5, 4096)), 4096u);
  EXPECT_EQ(source_of(piece, 5, place_word(6, 4096)), 64u);
  EXPECT_EQ(source_of(piece, 5, place_word(5, 0)), 64u);
  EXPECT_EQ(source_of(piece, 5, place_word(5, uint64_t{1} << kPlaceBits)), 64u);
  EXPECT_EQ(source_of(piece, 0, 0), 64u);
}

TEST(PlacedPieces, AreCopiedWhateverTheirAlignmentIs) {
  constexpr size_t kBytes = 700, kRoom = kBytes + 64;
  for (size_t from = 0; from < 17; ++from) {
    for (size_t to = 0; to < 17; ++to) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{15}, size_t{33}, kBytes}) {
        alignas(16) std::array<uint8_t, kRoom> source{}, target{}, expected{};
        for (size_t i = 0; i < kRoom; ++i) source[i] = static_cast<uint8_t>(i * 7 + 1);
        std::copy_n(source.begin() + from, bytes, expected.begin() + to);
        const PieceCopy copy{reinterpret_cast<uint64_t>(target.data() + to),
                             reinterpret_cast<uint64_t>(source.data() + from), bytes};
        for (uint64_t thread = 0; thread < 5; ++thread) copy.run(thread, 5);
        EXPECT_EQ(target, expected) << from << " " << to << " " << bytes;
      }
    }
  }
}

TEST(PairStreams, TransfersWithThisRankAreOneCopyAndEmptyOnesNone) {
  CountedPairs streams = first_of_four();
  const auto counts = put(streams, {transfer(true, 0, 10 * kSlot), transfer(true, 1, 0),
                                    transfer(false, 0, 10 * kSlot)});
  EXPECT_EQ(counts.copies, 1u);
  EXPECT_EQ(counts.operations, 1u);
  EXPECT_EQ(put(streams, {}).operations, 1u);
}

}  // namespace
}  // namespace tutti::engines::cuda
