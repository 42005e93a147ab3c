// Send and receive in shared memory: every length, wherever the ring ends, however far one side is
// ahead.
#include "src/exec/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/prng.h"
#include "tests/support/two_ranks.h"

namespace tutti::exec {
namespace {

constexpr uint64_t kShort = PairHead::kShortBytes;
constexpr uint64_t kPiece = PairChannel::kPieceBytes;
constexpr uint64_t kRing = PairChannel::kRingBytes;

std::vector<std::byte> contents(uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (uint64_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>((i * 7 + seed * 13) >> 3);
  return made;
}

/// Both ends of the channels between two ranks, in one thread unless a test makes another.
class Ends {
 public:
  Ends() : first_(two_.executor(0)), second_(two_.executor(1)) {}

  PairExecutor& operator[](int rank) { return rank == 0 ? first_ : second_; }

 private:
  testing_support::TwoRanks two_;
  PairExecutor first_, second_;
};

Transfer sent(const std::vector<std::byte>& data, uint32_t to = 1) {
  return {to, true, const_cast<std::byte*>(data.data()), data.size()};
}
Transfer received(std::vector<std::byte>& data, uint32_t from = 0) {
  return {from, false, data.data(), data.size()};
}

void expect_arrives(Ends& ends, uint64_t bytes, uint64_t seed) {
  const std::vector<std::byte> data = contents(bytes, seed);
  std::vector<std::byte> got(bytes);
  const Transfer send = sent(data), receive = received(got);
  std::thread sender([&] { EXPECT_TRUE(ends[0].run({&send, 1}).ok()); });
  EXPECT_TRUE(ends[1].run({&receive, 1}).ok());
  sender.join();
  ASSERT_TRUE(got == data) << bytes << " bytes";
}

// Each length ends before the end of the ring, at it, and behind it.
TEST(Pairs, EveryLength) {
  Ends ends;
  uint64_t seed = 0, at = 0;
  const auto arrives = [&](uint64_t bytes) {
    expect_arrives(ends, bytes, ++seed);
    if (bytes > kShort) at += PairChannel::padded(bytes);
  };
  for (const uint64_t bytes : {uint64_t{0},    uint64_t{1},       kShort - 1,     kShort,
                               kShort + 1,     uint64_t{63},      uint64_t{64},   uint64_t{65},
                               uint64_t{1023}, uint64_t{1024},    uint64_t{1025}, uint64_t{4095},
                               uint64_t{4096}, uint64_t{100'001}, kPiece - 1,     kPiece,
                               kPiece + 1,     kRing - 64,        kRing,          kRing + 1,
                               5 * kRing + 3}) {
    for (const uint64_t before_end : {kRing, uint64_t{64}, uint64_t{128}, uint64_t{1024}}) {
      const uint64_t filler = (2 * kRing - before_end - at % kRing) % kRing;
      if (filler > 0) arrives(filler);
      ASSERT_EQ(at % kRing, (kRing - before_end) % kRing);
      arrives(bytes);
      if (HasFailure()) return;
    }
  }
}

// A receiver that has read the first piece, of which the head tells, looks at a count that is
// behind it: messages before were told of by heads alone.
TEST(Pairs, AReceiverThatLooksTooEarlyFindsNothing) {
  Ends ends;
  const std::vector<std::byte> small = contents(1000, 1), large = contents(3 * kPiece, 2);
  std::vector<std::byte> got_small(small.size()), got_large(large.size());
  const Transfer first = sent(small), second = sent(large);
  const Transfer takes_first = received(got_small), takes_second = received(got_large);
  ends[0].start({&first, 1});
  ends[1].start({&takes_first, 1});
  EXPECT_EQ(ends[1].advance(), Progress::kBlocked);
  EXPECT_EQ(ends[0].advance(), Progress::kDone);
  EXPECT_EQ(ends[1].advance(), Progress::kDone);

  ends[0].start({&second, 1});
  ends[1].start({&takes_second, 1});
  for (int piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(ends[1].advance(), Progress::kBlocked) << "before piece " << piece;
    EXPECT_EQ(ends[0].advance(), piece == 2 ? Progress::kDone : Progress::kMoved);
    EXPECT_EQ(ends[1].advance(), piece == 2 ? Progress::kDone : Progress::kMoved);
  }
  EXPECT_TRUE(got_small == small);
  EXPECT_TRUE(got_large == large);
}

// Bytes that have been announced may be those of the next message already.
TEST(Pairs, AMessageEndsBeforeWhatThereIs) {
  Ends ends;
  const std::vector<std::byte> first = contents(kPiece + 1000, 1),
                               second = contents(kPiece + 64, 2);
  std::vector<std::byte> got_first(first.size()), got_second(second.size());
  const Transfer sends[] = {sent(first), sent(second)};
  const Transfer receives[] = {received(got_first), received(got_second)};
  ends[0].start(sends);
  ends[1].start(receives);
  // The first message whole; its first piece is read, and so there is room for the second.
  EXPECT_EQ(ends[0].advance(), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kMoved);
  EXPECT_EQ(ends[1].advance(), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kDone);
  for (int turns = 0; ends[1].advance() != Progress::kDone; ++turns) ASSERT_LT(turns, 10);
  EXPECT_TRUE(got_first == first);
  EXPECT_TRUE(got_second == second);
}

// A sender that waits takes the line of the next head, unless an old message is still in it.
TEST(Pairs, AFullChannelOfSmallCallsKeepsTheFirst) {
  Ends ends;
  for (uint32_t i = 0; i < PairChannel::kHeads; ++i) {
    const std::vector<std::byte> word = contents(8, i);
    const Transfer send = sent(word);
    ASSERT_TRUE(ends[0].run({&send, 1}).ok());
  }
  for (uint32_t i = 0; i < PairChannel::kHeads; ++i) {
    std::vector<std::byte> got(8);
    const Transfer receive = received(got);
    ASSERT_TRUE(ends[1].run({&receive, 1}).ok()) << i;
    ASSERT_EQ(got, contents(8, i));
  }
}

TEST(Pairs, ASenderIsAheadByAsMuchAsThereIsRoomFor) {
  Ends ends;
  const std::vector<std::byte> word = contents(8, 1), large = contents(3 * kPiece, 2);
  const auto advance_send = [&](const std::vector<std::byte>& data) {
    const Transfer send = sent(data);
    ends[0].start({&send, 1});
    return ends[0].advance();
  };
  for (uint32_t i = 0; i < PairChannel::kHeads; ++i) {
    ASSERT_EQ(advance_send(word), Progress::kDone) << i;
  }
  EXPECT_EQ(advance_send(word), Progress::kBlocked);
  std::vector<std::byte> got(word.size()), got_large(large.size());
  const Transfer receive = received(got), receive_large = received(got_large);
  for (uint32_t i = 0; i < PairChannel::kHeads; ++i) {
    ASSERT_TRUE(ends[1].run({&receive, 1}).ok());
    ASSERT_EQ(got, word) << i;
  }
  EXPECT_EQ(ends[0].advance(), Progress::kDone);
  ASSERT_TRUE(ends[1].run({&receive, 1}).ok());

  // The ring is as empty as the heads now.
  EXPECT_EQ(advance_send(large), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kBlocked) << "the ring holds two pieces";
  ends[1].start({&receive_large, 1});
  EXPECT_EQ(ends[1].advance(), Progress::kMoved);
  EXPECT_EQ(ends[0].advance(), Progress::kDone);
  EXPECT_EQ(ends[1].advance(), Progress::kDone);
  EXPECT_TRUE(got_large == large);
}

// Both ways at once, so that the two ends meet in every state of the other.
TEST(Pairs, RandomLengthsInRandomGroups) {
  constexpr int kMessages = 400;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Ends ends;
    Prng lengths(seed);
    std::deque<std::vector<std::byte>> data[2];
    std::deque<std::vector<std::byte>> got[2];
    for (int from = 0; from < 2; ++from) {
      for (int i = 0; i < kMessages; ++i) {
        const uint64_t most = i % 40 == 0 ? 2 * kRing : i % 3 == 0 ? 5000 : 100;
        data[from].push_back(contents(lengths.below(most), seed + static_cast<uint64_t>(i)));
        got[1 - from].emplace_back(data[from].back().size());
      }
    }
    const auto exchange = [&](int rank) {
      const auto peer = static_cast<uint32_t>(1 - rank);
      for (size_t i = 0; i < kMessages;) {
        std::vector<Transfer> group;
        const size_t end = std::min<size_t>(kMessages, i + 8);
        for (size_t k = i; k < end; ++k) group.push_back(sent(data[rank][k], peer));
        for (size_t k = i; k < end; ++k) group.push_back(received(got[rank][k], peer));
        // Every second time the receives come first.
        const auto sends = static_cast<std::ptrdiff_t>(end - i);
        if (seed % 2 == 0) std::rotate(group.begin(), group.begin() + sends, group.end());
        ASSERT_TRUE(ends[rank].run(group).ok());
        i = end;
      }
    };
    std::thread other(exchange, 1);
    exchange(0);
    other.join();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(got[rank] == data[1 - rank]) << "to rank " << rank << ", seed " << seed;
    }
  }
}

TEST(Pairs, AnotherLengthIsAnErrorThatNamesBoth) {
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{5000}}) {
    Ends ends;
    const std::vector<std::byte> data = contents(bytes, 1);
    std::vector<std::byte> got(bytes + 1, std::byte{0x55});
    const Transfer send = sent(data), receive = received(got);
    ASSERT_TRUE(ends[0].run({&send, 1}).ok());
    const Status status = ends[1].run({&receive, 1});
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_EQ(status.message(), "rank 0 sent " + std::to_string(bytes) +
                                    " bytes where rank 1 receives " + std::to_string(bytes + 1));
    EXPECT_EQ(got, std::vector<std::byte>(bytes + 1, std::byte{0x55})) << "nothing was written";
  }
}

TEST(Pairs, WithMyselfTheyMatchOneByOne) {
  std::vector<std::byte> a(8), b(9), c(8);
  const std::vector<Transfer> right = {sent(a, 0), sent(b, 0), received(c, 0), sent(a, 1),
                                       received(b, 0)};
  EXPECT_TRUE(check_own_transfers(right, 0).ok());
  EXPECT_FALSE(check_own_transfers(right, 1).ok()) << "a send without a receive";
  EXPECT_TRUE(check_own_transfers(right, 2).ok()) << "there are none";
  const std::vector<Transfer> unequal = {sent(a, 0), received(b, 0)};
  EXPECT_FALSE(check_own_transfers(unequal, 0).ok());
  const std::vector<Transfer> left = {sent(a, 0), received(c, 0), received(c, 0)};
  EXPECT_FALSE(check_own_transfers(left, 0).ok());
}

}  // namespace
}  // namespace tutti::exec
