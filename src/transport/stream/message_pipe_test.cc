// Two exchanges joined by imagined pipes that carry frames: in order, shuffled, twice, not at all,
// and with writes into the other one's memory that end in any order.
#include "src/transport/stream/message_pipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;

constexpr ChannelId kChannel{1, 0, 0};
constexpr ChannelId kRegion{1, 0, 9};
constexpr uint64_t kLimit = 8 * 1024;

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  return data;
}

/// All memory is open; the key is the address again, so that a write knows that it has the right
/// one.
class OpenMemory final : public PlacedMemory {
 public:
  std::optional<KeyedPlace> place_of(const void* memory, uint64_t) override {
    if (memory == closed_) return std::nullopt;
    KeyedPlace place;
    place.address = reinterpret_cast<uint64_t>(memory);
    place.key.bytes = 4;
    return place;
  }
  void close(const void* memory) { closed_ = memory; }

 private:
  const void* closed_ = nullptr;
};

struct WireFrame {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

std::vector<std::byte> joined(std::span<const iovec> pieces) {
  std::vector<std::byte> bytes;
  for (const iovec& piece : pieces) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), data, data + piece.iov_len);
  }
  return bytes;
}

struct PipeFaults {
  bool shuffled = false;  // frames and ends of writes
  bool segments = false;  // the receiving end counts what arrives
};

/// Rank 0 and rank 1, the frames on the wire, and the writes under way.
class Pair {
 public:
  Pair(unsigned seed, bool placed, PipeFaults faults = {})
      : random_(seed), faults_(faults), placed_(placed) {
    for (int rank = 0; rank < 2; ++rank) {
      ends_[rank] =
          std::make_unique<MessageExchange>(rank, 1 - rank, placed ? &memory_[rank] : nullptr);
    }
  }

  MessageExchange& end(int rank) { return *ends_[rank]; }
  OpenMemory& memory(int rank) { return memory_[rank]; }
  std::vector<WireFrame>& wire(int rank) { return wire_[rank]; }
  int writes() const { return writes_; }

  std::function<void()> after_frame;  // runs after each that one of the ends has taken

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < 2; ++rank) {
        while (load(rank)) moved = true;
        while (write(rank)) moved = true;
        while (load(rank)) moved = true;  // of writes that are told of at once
        while (deliver_or_finish(rank)) moved = true;
      }
    }
  }
  bool deliver_or_finish(int rank) {
    if (random_() % 2 == 0) return deliver(rank) || finish_write(rank);
    return finish_write(rank) || deliver(rank);
  }
  bool load(int rank) {
    const auto frame = end(rank).next(kLimit);
    if (!frame) return false;
    EXPECT_LE(total_bytes(frame->payload), kLimit);
    wire_[rank].push_back({{frame->header.begin(), frame->header.end()}, joined(frame->payload)});
    carried_[rank].push_back(frame->name);
    if (random_() % 2 == 0) finish_carried(rank);
    return true;
  }
  void finish_carried(int rank) {
    std::shuffle(carried_[rank].begin(), carried_[rank].end(), random_);
    for (const uint64_t name : carried_[rank]) end(rank).carried(name);
    carried_[rank].clear();
  }
  /// The wire of `rank` gives one frame to the other end.
  bool deliver(int rank) {
    finish_carried(rank);
    std::vector<WireFrame>& wire = wire_[rank];
    if (wire.empty()) return false;
    const size_t window = faults_.shuffled ? std::min<size_t>(wire.size(), 40) : 1;
    const size_t at = random_() % window;
    const WireFrame frame = wire[at];
    wire.erase(wire.begin() + static_cast<ptrdiff_t>(at));
    end(1 - rank).take(frame.header, frame.payload);
    if (after_frame) after_frame();
    return true;
  }

  bool is_sent(int rank, uint64_t ticket) { return end(rank).sent().done_under_lock(ticket); }
  bool is_received(int rank, uint64_t ticket) {
    return end(rank).received().done_under_lock(ticket);
  }
  uint64_t send(int rank, ChannelId id, const std::vector<std::byte>& data, uint32_t sig = 7) {
    const ConstBuffer piece{data.data(), data.size()};
    return end(rank).send(id, sig, {&piece, 1});
  }
  uint64_t receive(int rank, ChannelId id, std::vector<std::byte>& data, uint32_t sig = 7) {
    const Buffer piece{data.data(), data.size()};
    return end(rank).receive(id, sig, {&piece, 1});
  }

 private:
  struct WriteUnderWay {
    uint64_t name;
    uint32_t number;
    std::vector<std::byte> bytes;
    std::byte* target;
  };

  bool write(int rank) {
    if (!placed_) return false;
    const auto write = end(rank).next_write({kMaxFrameBytes, kMaxFrameBytes});
    if (!write) return false;
    EXPECT_EQ(write->write.place.key.bytes, 4);
    ++writes_;
    under_way_[rank].push_back({write->write.name, write->write.number, joined(write->source),
                                reinterpret_cast<std::byte*>(write->write.place.address)});
    if (faults_.segments) end(rank).written(write->write.name, 2);
    return true;
  }
  bool finish_write(int rank) {
    std::vector<WriteUnderWay>& writes = under_way_[rank];
    if (writes.empty()) return false;
    const size_t at = faults_.shuffled ? random_() % writes.size() : 0;
    const WriteUnderWay done = writes[at];
    writes.erase(writes.begin() + static_cast<ptrdiff_t>(at));
    std::memcpy(done.target, done.bytes.data(), done.bytes.size());
    if (faults_.segments) {
      end(1 - rank).arrived(done.number, 1);
      end(1 - rank).arrived(done.number, 1);
    } else {
      end(rank).written(done.name);
    }
    return true;
  }

  std::mt19937 random_;
  const PipeFaults faults_;
  const bool placed_;
  OpenMemory memory_[2];
  std::unique_ptr<MessageExchange> ends_[2];
  std::vector<WireFrame> wire_[2];
  std::vector<uint64_t> carried_[2];
  std::vector<WriteUnderWay> under_way_[2];
  int writes_ = 0;
};

struct Transfer {
  std::vector<std::byte> source, target;
  uint64_t sent = 0, received = 0;  // 0: not yet
  bool checked = false;
  ChannelId id;
};

/// 60 messages over six channels, sends and receives in any order.
void exchange_messages(Pair& pair, std::mt19937& random) {
  std::vector<std::unique_ptr<Transfer>> all;
  for (unsigned i = 0; i < 60; ++i) {
    auto transfer = std::make_unique<Transfer>();
    const size_t bytes = random() % (random() % 3 == 0 ? 400'000 : 600);
    transfer->source = pattern(bytes, i);
    transfer->target.resize(bytes);
    transfer->id = {random() % 3, 0, static_cast<uint32_t>(random() % 2)};
    all.push_back(std::move(transfer));
  }
  // Bytes are there when the receive is done, not only in the end.
  pair.after_frame = [&] {
    for (const auto& one : all) {
      if (one->checked || one->received == 0 || !pair.is_received(1, one->received)) continue;
      one->checked = true;
      EXPECT_EQ(one->source, one->target);
    }
  };
  for (size_t sent = 0, posted = 0; sent < all.size() || posted < all.size();) {
    if (posted == all.size() || (sent < all.size() && random() % 2 == 0)) {
      Transfer& one = *all[sent++];
      one.sent = pair.send(0, one.id, one.source);
    } else {
      Transfer& one = *all[posted++];
      one.received = pair.receive(1, one.id, one.target);
    }
    if (random() % 5 == 0) pair.run();
  }
  pair.run();
  pair.after_frame = {};
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_FALSE(pair.end(rank).faulty()) << pair.end(rank).fault_status().message();
  }
  for (const auto& one : all) {
    ASSERT_TRUE(pair.is_sent(0, one->sent));
    ASSERT_TRUE(pair.is_received(1, one->received));
    ASSERT_EQ(one->source, one->target);
  }
}

TEST(StreamMessages, ArriveWholeInWhateverOrderThePipeCarriesFrames) {
  for (const bool shuffled : {false, true}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      std::mt19937 random(seed);
      Pair pair(seed, false, {shuffled});
      exchange_messages(pair, random);
    }
  }
}

TEST(StreamMessages, ArePlacedInWhateverOrderWritesEnd) {
  for (const bool segments : {false, true}) {
    for (const bool shuffled : {false, true}) {
      for (unsigned seed = 0; seed < 10; ++seed) {
        std::mt19937 random(seed);
        Pair pair(seed, true, {shuffled, segments});
        exchange_messages(pair, random);
        EXPECT_GT(pair.writes(), 5);
      }
    }
  }
}

// The test above sees a frame that overtakes the bytes it tells of.
TEST(StreamMessages, APlacedFrameThatComesBeforeItsBytesShows) {
  Pair pair(1, true);
  const auto source = pattern(100'000, 1);
  std::vector<std::byte> target(source.size());
  const uint64_t received = pair.receive(1, kChannel, target);
  pair.send(0, kChannel, source);
  bool early = false;
  for (int turn = 0; turn < 100; ++turn) {
    pair.load(1);
    pair.deliver(1);
    pair.load(0);
    if (const auto write = pair.end(0).next_write({kMaxFrameBytes, kMaxFrameBytes}))
      pair.end(0).written(write->write.name);
    pair.deliver(0);
    early = early || (pair.is_received(1, received) && source != target);
  }
  EXPECT_TRUE(early);
}

// The receiving end counts segments before a frame tells of them, and keeps few such numbers.
TEST(StreamMessages, WritesOfChannelsThatEndAreForgottenByThePeer) {
  constexpr uint32_t kMoreThanAPeerKeeps = 4200;
  Pair pair(1, true);
  const auto source = pattern(40'000, 1);
  for (uint32_t epoch = 0; epoch < kMoreThanAPeerKeeps; ++epoch) {
    std::vector<std::byte> target(source.size());
    pair.receive(1, {1, epoch, 0}, target);
    while (pair.load(1) || pair.deliver(1)) {
    }
    pair.send(0, {1, epoch, 0}, source);
    const auto write = pair.end(0).next_write({kMaxFrameBytes, kMaxFrameBytes});
    ASSERT_TRUE(write);
    pair.end(0).end_epoch({1, epoch});
    pair.end(1).end_epoch({1, epoch});
    pair.end(1).arrived(write->write.number, 1);
    pair.end(0).written(write->write.name, 1);
    pair.run();
    ASSERT_FALSE(pair.end(1).faulty()) << epoch << ": " << pair.end(1).fault_status().message();
  }
}

TEST(StreamMessages, MemoryWithoutAKeyTakesFramesInstead) {
  Pair pair(3, true);
  const auto source = pattern(200'000, 1);
  std::vector<std::byte> target(source.size());
  pair.memory(1).close(target.data());
  const uint64_t received = pair.receive(1, kChannel, target);
  pair.send(0, kChannel, source);
  pair.run();
  EXPECT_TRUE(pair.is_received(1, received));
  EXPECT_EQ(source, target);
  EXPECT_EQ(pair.writes(), 0);
}

// A put of many pieces raises its signal behind all of them, and puts keep their order.
TEST(StreamMessages, PutsArePlacedAndSignalsComeBehind) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Pair pair(seed, true, {true, seed % 2 == 0});
    std::vector<std::byte> memory(900'000);
    std::array<std::atomic<uint64_t>, 2> signals{};
    pair.end(1).expose(kRegion, {memory.data(), memory.size(), signals.data(), 2});
    pair.run();
    const auto large = pattern(memory.size(), seed), small = pattern(100, seed + 1);
    const uint64_t first = pair.end(0).put(kRegion, 0, {large.data(), large.size()}, 0);
    const uint64_t second = pair.end(0).put(kRegion, 50, {small.data(), small.size()}, 1);
    std::vector<std::byte> back(memory.size());
    const uint64_t got = pair.end(0).get(kRegion, 0, {back.data(), back.size()});
    pair.run();
    ASSERT_TRUE(pair.is_sent(0, first) && pair.is_sent(0, second) && pair.is_received(0, got));
    EXPECT_EQ(signals[0].load(), 1u);
    EXPECT_EQ(signals[1].load(), 1u);
    auto expected = large;
    std::copy(small.begin(), small.end(), expected.begin() + 50);
    EXPECT_EQ(memory, expected);
    EXPECT_EQ(back, expected);
    EXPECT_GE(pair.writes(), 4);
  }
}

TEST(StreamMessages, ARegionIsTheCallersWhenWithdrawSaysSo) {
  Pair pair(1, true);
  std::vector<std::byte> memory(300'000);
  pair.end(1).expose(kRegion, {memory.data(), memory.size(), nullptr, 0});
  pair.run();
  const auto source = pattern(memory.size(), 1);
  pair.end(0).put(kRegion, 0, {source.data(), source.size()}, transport::OneSided::kNoSignal);
  const auto write = pair.end(0).next_write({kMaxFrameBytes, kMaxFrameBytes});
  ASSERT_TRUE(write);
  EXPECT_FALSE(pair.end(1).withdraw(kRegion));
  while (pair.load(1) || pair.deliver(1)) {
  }
  while (pair.load(0) || pair.deliver(0)) {
  }
  EXPECT_FALSE(pair.end(1).withdraw(kRegion)) << "a write is under way";
  pair.end(0).written(write->write.name);
  pair.run();
  EXPECT_TRUE(pair.end(1).withdraw(kRegion));
  EXPECT_TRUE(pair.end(0).refused(kRegion)) << "the rest of the put";
}

// ---- pipes that do what they must not -----------------------------------------------------------

std::string verdict(Pair& pair) { return std::string(pair.end(1).fault_status().message()); }

TEST(StreamMessages, AFrameThatComesTwiceIsRefused) {
  for (const size_t which : {size_t{0}, size_t{2}}) {
    Pair pair(1, false);
    const auto source = pattern(30'000, 1);
    pair.send(0, kChannel, source);
    while (pair.load(0)) {
    }
    ASSERT_GT(pair.wire(0).size(), which);
    pair.wire(0).push_back(pair.wire(0)[which]);
    pair.run();
    EXPECT_NE(verdict(pair).find("a frame twice"), std::string::npos) << verdict(pair);
    EXPECT_NE(verdict(pair).find("rank 0"), std::string::npos) << verdict(pair);
  }
}

TEST(StreamMessages, AFrameThatNeverComesIsAGap) {
  Pair pair(1, false);
  pair.load(0);
  for (uint64_t i = 0; i <= MessageExchange::kMostEarly; ++i) {
    ASSERT_FALSE(pair.end(1).faulty()) << i;
    pair.end(0).tell({9, 0, 0}, {});
    ASSERT_TRUE(pair.load(0));
    if (i == 0) pair.wire(0).clear();
    pair.deliver(0);
  }
  EXPECT_NE(verdict(pair).find("gap"), std::string::npos) << verdict(pair);
}

TEST(StreamMessages, FramesOfPlacedBytesAreRefusedWhereNothingIsPlaced) {
  for (const bool placed : {false, true}) {
    Pair pair(1, placed);
    FrameHeader header;
    header.type = FrameType::kPlaced;
    header.channel = kChannel;
    header.message_bytes = 100;
    std::array<std::byte, kPlacedPayload> payload;
    header.length = static_cast<uint32_t>(encode(PlacedBytes{100, 0, 0}, payload.data()));
    std::array<std::byte, kSequencedHeaderBytes> bytes;
    encode_sequenced(header, 0, bytes.data());
    pair.end(1).take(bytes, payload);
    const char* const wrong = placed ? "where no receive is" : "does not carry";
    EXPECT_NE(verdict(pair).find(wrong), std::string::npos) << verdict(pair);
  }
}

// Whatever an authenticated peer sends: no crash, bounded memory, and a sentence in the end.
TEST(StreamMessages, MutatedFramesAreRefusedOrHarmless) {
  std::mt19937 random(5);
  int faulty = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    Pair pair(round, true);
    std::vector<std::byte> target(40'000), memory(40'000);
    pair.end(1).expose(kRegion, {memory.data(), memory.size(), nullptr, 0});
    pair.receive(1, kChannel, target);
    const auto source = pattern(target.size(), round);
    pair.send(0, kChannel, source);
    pair.end(0).put(kRegion, 0, {source.data(), 100}, transport::OneSided::kNoSignal);
    while (pair.load(0)) {
    }
    for (WireFrame& frame : pair.wire(0)) {
      if (random() % 3 == 0) frame.header[random() % frame.header.size()] = std::byte(random());
      if (random() % 8 == 0) frame.payload.resize(random() % 90);
    }
    while (pair.deliver(0)) {
    }
    if (!pair.end(1).faulty()) continue;
    ++faulty;
    ASSERT_NE(verdict(pair).find("rank 0"), std::string::npos);
  }
  EXPECT_GT(faulty, 1000) << "the mutations do not reach the checks";
}

}  // namespace
}  // namespace tutti::transport::stream
