#include "src/exec/bounce_pairs.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::exec {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(BouncePairs, PiecesAreAsLongAtBothEndsWhateverElseARankDoes) {
  const Transfer sent{.peer = 1, .is_send = true, .bytes = 5 * kMiB + 3};
  std::vector<Transfer> others = {sent};
  for (uint32_t peer = 2; peer < 30; ++peer) others.push_back({.peer = peer, .bytes = 700});
  const BouncePairs alone({&sent, 1}, 30), busy(others, 30);
  EXPECT_EQ(alone.directions()[0].slot_bytes, busy.directions()[0].slot_bytes);
  EXPECT_EQ(alone.directions()[0].slot_bytes, BouncePairs::piece_bytes(30));
}

TEST(BouncePairs, MemoryIsBoundedHoweverMuchIsSent) {
  for (const int ranks : {2, 8, 9, 64, 128}) {
    std::vector<Transfer> all;
    for (uint32_t peer = 1; peer < static_cast<uint32_t>(ranks); ++peer) {
      for (const bool sends : {true, false}) {
        for (int i = 0; i < 3; ++i) all.push_back({peer, sends, nullptr, 4096 * kMiB});
      }
    }
    EXPECT_LE(BouncePairs(all, ranks).bytes(), 33 * kMiB) << ranks;
  }
}

TEST(BouncePairs, ShortTransfersTakeLittleMemoryAndEmptyOnesNone) {
  const std::vector<Transfer> few = {{.peer = 1, .is_send = true, .bytes = 10},
                                     {.peer = 1, .is_send = false, .bytes = 0}};
  const BouncePairs pairs(few, 4);
  EXPECT_EQ(pairs.directions()[0].slots, 1u);
  EXPECT_EQ(pairs.directions()[1].slots, 0u);
  EXPECT_LT(pairs.bytes(), 4096u);
}

TEST(BouncePairs, ZonesAndWordsLieApart) {
  const std::vector<Transfer> some = {{.peer = 1, .is_send = true, .bytes = 3 * kMiB},
                                      {.peer = 2, .is_send = false, .bytes = 100},
                                      {.peer = 1, .is_send = false, .bytes = 2000}};
  const BouncePairs pairs(some, 4);
  uint64_t end = some.size() * sizeof(BounceDirectionWords);
  for (const BounceDirection& one : pairs.directions()) {
    EXPECT_GE(one.place, end);
    end = one.place + one.slots * one.slot_bytes;
  }
  EXPECT_LE(end, pairs.bytes());
}

TEST(BouncePairs, LetGoIsBeyondWhatAnyStreamAwaits) {
  const std::vector<Transfer> one = {{.peer = 1, .is_send = true, .bytes = 3 * kMiB}};
  const BouncePairs pairs(one, 2);
  std::vector<std::byte> room(pairs.bytes() + kLineBytes);
  std::byte* const memory =
      room.data() + kLineBytes - reinterpret_cast<uintptr_t>(room.data()) % kLineBytes;
  pairs.begin(memory);
  EXPECT_EQ(pairs.words(memory, 0).by_host.value.load(), 0u);
  pairs.let_go(memory);
  EXPECT_GT(pairs.words(memory, 0).by_host.value.load(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace tutti::exec
