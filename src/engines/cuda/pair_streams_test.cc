#include "src/engines/cuda/pair_streams.h"

#include <gtest/gtest.h>

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
