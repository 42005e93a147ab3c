// A communicator ends its epoch on a link that others use: in the middle of messages, puts and
// gets, over each kind of pipe.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "src/transport/stream/message_pipe.h"

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::EpochId;

constexpr EpochId kFails{1, 0}, kGoesOn{2, 0};
constexpr std::byte kUntouched{0xee}, kReused{0x55};

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) % 80);
  return data;
}

bool is_done(const TicketWindow& window, uint64_t ticket) { return window.done_under_lock(ticket); }

/// Two ends, and how bytes or frames get from one to the other.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual FrameExchange& end(int rank) = 0;
  /// Something small moves one way or the other; false: nothing is left.
  virtual bool step(std::mt19937& random) = 0;
  void run(std::mt19937& random) {
    while (step(random)) {
    }
  }
};

class ByteWire final : public Wire {
 public:
  FrameExchange& end(int rank) override { return *ends_[rank]; }
  bool step(std::mt19937& random) override {
    const int first = static_cast<int>(random() % 2);
    return move(first, random) || move(1 - first, random);
  }

 private:
  bool move(int rank, std::mt19937& random) {
    const bool wrote = write(*ends_[rank], wires_[rank], random);
    return read(*ends_[1 - rank], wires_[rank], random) || wrote;
  }
  static bool write(ByteExchange& from, std::deque<std::byte>& wire, std::mt19937& random) {
    const std::span<const iovec> entries = from.gather();
    if (entries.empty() || wire.size() > 100'000) return false;
    size_t left = std::min<size_t>(total_bytes(entries), 1 + random() % 50'000);
    const size_t count = left;
    for (const iovec& entry : entries) {
      const size_t here = std::min(left, entry.iov_len);
      const auto* data = static_cast<const std::byte*>(entry.iov_base);
      wire.insert(wire.end(), data, data + here);
      left -= here;
    }
    from.wrote(count);
    return true;
  }
  static bool read(ByteExchange& to, std::deque<std::byte>& wire, std::mt19937& random) {
    if (wire.empty() || to.faulty()) return false;
    std::array<iovec, BytesIn::kMaxEntries> entries;
    const size_t used = to.prepare(entries);
    size_t left =
        std::min<size_t>({wire.size(), total_bytes({entries.data(), used}), 1 + random() % 50'000});
    const size_t count = left;
    for (size_t i = 0; i < used && left > 0; ++i) {
      const size_t here = std::min(left, entries[i].iov_len);
      std::copy_n(wire.begin(), here, static_cast<std::byte*>(entries[i].iov_base));
      wire.erase(wire.begin(), wire.begin() + static_cast<ptrdiff_t>(here));
      left -= here;
    }
    to.commit(count);
    return true;
  }

  std::unique_ptr<ByteExchange> ends_[2] = {std::make_unique<ByteExchange>(0, 1),
                                            std::make_unique<ByteExchange>(1, 0)};
  std::deque<std::byte> wires_[2];
};

class OpenMemory final : public PlacedMemory {
 public:
  std::optional<KeyedPlace> place_of(const void* memory, uint64_t) override {
    KeyedPlace place;
    place.address = reinterpret_cast<uint64_t>(memory);
    return place;
  }
};

/// Frames are carried at once; writes stay under way until they are finished.
class PlacedWire final : public Wire {
 public:
  FrameExchange& end(int rank) override { return *ends_[rank]; }
  MessageExchange& exchange(int rank) { return *ends_[rank]; }
  bool step(std::mt19937& random) override {
    const int first = static_cast<int>(random() % 2);
    if (random() % 2 == 0 && finish_write(first)) return true;
    return carry(first) || carry(1 - first) || write(first) || write(1 - first) ||
           finish_write(first) || finish_write(1 - first);
  }
  bool carry(int rank) {
    const auto frame = ends_[rank]->next(8192);
    if (!frame) return false;
    std::vector<std::byte> payload;
    for (const iovec& piece : frame->payload) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      payload.insert(payload.end(), data, data + piece.iov_len);
    }
    ends_[1 - rank]->take(frame->header, payload);
    ends_[rank]->carried(frame->name);
    return true;
  }
  bool write(int rank) {
    const auto write = ends_[rank]->next_write({kMaxFrameBytes, kMaxFrameBytes});
    if (write) under_way_[rank].push_back(*write);
    return write.has_value();
  }
  bool finish_write(int rank) {
    if (under_way_[rank].empty()) return false;
    const CarriedWrite write = under_way_[rank].front();
    under_way_[rank].pop_front();
    auto* target = reinterpret_cast<std::byte*>(write.write.place.address);
    for (const iovec& piece : write.source) {
      std::memcpy(target, piece.iov_base, piece.iov_len);
      target += piece.iov_len;
    }
    ends_[rank]->written(write.write.name);
    return true;
  }

 private:
  OpenMemory memory_;
  std::unique_ptr<MessageExchange> ends_[2] = {std::make_unique<MessageExchange>(0, 1, &memory_),
                                               std::make_unique<MessageExchange>(1, 0, &memory_)};
  std::deque<CarriedWrite> under_way_[2];
};

std::unique_ptr<Wire> make_wire(bool placed) {
  if (placed) return std::make_unique<PlacedWire>();
  return std::make_unique<ByteWire>();
}

/// A message from rank 0 to rank 1 and one back, and a put and a get of rank 0.
class Traffic {
 public:
  Traffic(Wire& wire, EpochId epoch, size_t bytes) : wire_(wire), epoch_(epoch) {
    for (int rank = 0; rank < 2; ++rank) {
      source_[rank] = pattern(bytes, static_cast<unsigned>(rank));
      target_[rank].assign(bytes, kUntouched);
    }
    memory_ = pattern(2 * bytes, 7);
    got_.assign(bytes, kUntouched);
    true_source_ = source_[0];
    const ChannelId region = id(9);
    wire.end(1).expose(region, {memory_.data(), memory_.size(), signals_.data(), 1});
    for (int rank = 0; rank < 2; ++rank) {
      const Buffer in{target_[rank].data(), bytes};
      const ConstBuffer out{source_[rank].data(), bytes};
      received_[rank] = wire.end(rank).receive(id(0), 7, {&in, 1});
      sent_[rank] = wire.end(rank).send(id(0), 7, {&out, 1});
    }
    put_ = wire.end(0).put(region, 0, {source_[0].data(), bytes}, 0);
    get_ = wire.end(0).get(region, bytes, {got_.data(), bytes});
  }

  void expect_done() const {
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(is_done(wire_.end(rank).sent(), sent_[rank]));
      ASSERT_TRUE(is_done(wire_.end(rank).received(), received_[rank]));
      EXPECT_EQ(target_[rank], source_[1 - rank]);
    }
    ASSERT_TRUE(is_done(wire_.end(0).sent(), put_) && is_done(wire_.end(0).received(), get_));
    EXPECT_EQ(signals_[0].load(), 1u);
    EXPECT_TRUE(std::equal(source_[0].begin(), source_[0].end(), memory_.begin()));
    EXPECT_TRUE(std::equal(got_.begin(), got_.end(),
                           memory_.begin() + static_cast<ptrdiff_t>(got_.size())));
  }
  /// Rank `rank` has its memory back and uses it for something else.
  void reuse(int rank) {
    std::fill(source_[rank].begin(), source_[rank].end(), kReused);
    std::fill(target_[rank].begin(), target_[rank].end(), kReused);
    if (rank == 0) std::fill(got_.begin(), got_.end(), kReused);
    if (rank == 1) std::fill(memory_.begin(), memory_.end(), kReused);
  }
  /// The bytes that rank `rank` wrote there in reuse() are still there.
  void expect_untouched(int rank) const {
    const auto is_reused = [](std::byte byte) { return byte == kReused; };
    EXPECT_TRUE(std::all_of(target_[rank].begin(), target_[rank].end(), is_reused));
    const std::vector<std::byte>& other = rank == 0 ? got_ : memory_;
    EXPECT_TRUE(std::all_of(other.begin(), other.end(), is_reused));
  }
  /// The peer of a rank that reused its memory has got nothing of what is there now.
  void expect_none_of_what_is_there_now(int rank) const {
    const std::vector<std::byte>& target = target_[1 - rank];
    EXPECT_EQ(std::count(target.begin(), target.end(), kReused), 0);
  }

 private:
  ChannelId id(uint32_t lane) const { return {epoch_.communicator, epoch_.epoch, lane}; }

  Wire& wire_;
  const EpochId epoch_;
  std::vector<std::byte> source_[2], target_[2], memory_, got_, true_source_;
  std::array<std::atomic<uint64_t>, 1> signals_{};
  uint64_t sent_[2], received_[2], put_ = 0, get_ = 0;
};

TEST(StreamEpoch, EndsAnywhereWhileOthersGoOn) {
  for (const bool placed : {false, true}) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      std::mt19937 random(seed);
      const auto wire = make_wire(placed);
      Traffic fails(*wire, kFails, 700'000), goes_on(*wire, kGoesOn, 700'000);
      for (unsigned steps = random() % 150; steps > 0; --steps) wire->step(random);
      const int rank = static_cast<int>(seed % 2);
      wire->end(rank).end_epoch(kFails);
      while (!wire->end(rank).has_let_go(kFails)) ASSERT_TRUE(wire->step(random));
      fails.reuse(rank);
      wire->run(random);
      fails.expect_untouched(rank);
      fails.expect_none_of_what_is_there_now(rank);
      goes_on.expect_done();
      // The other end fails, too, when it hears of it.
      wire->end(1 - rank).end_epoch(kFails);
      while (!wire->end(1 - rank).has_let_go(kFails)) ASSERT_TRUE(wire->step(random));
      fails.reuse(1 - rank);
      wire->run(random);
      fails.expect_untouched(1 - rank);
      for (int one = 0; one < 2; ++one) ASSERT_FALSE(wire->end(one).faulty()) << seed;
      Traffic later(*wire, {2, 1}, 1000);
      wire->run(random);
      later.expect_done();
    }
  }
}

// Over bytes nobody but this rank writes to its memory: it is the caller's at once, though the peer
// takes nothing.
TEST(StreamEpoch, OverBytesAStoppedPeerHoldsNothing) {
  std::mt19937 random(1);
  ByteWire wire;
  Traffic fails(wire, kFails, 700'000);
  for (int steps = 0; steps < 20; ++steps) wire.step(random);
  wire.end(0).end_epoch(kFails);
  EXPECT_TRUE(wire.end(0).has_let_go(kFails));
}

TEST(StreamEpoch, MemoryThatThePeerWritesToIsTheCallersWhenThePeerSaysSo) {
  PlacedWire wire;
  const auto source = pattern(100'000, 1);
  std::vector<std::byte> target(source.size());
  const Buffer in{target.data(), target.size()};
  const ConstBuffer out{source.data(), source.size()};
  wire.end(1).receive({1, 0, 0}, 7, {&in, 1});
  wire.end(0).send({1, 0, 0}, 7, {&out, 1});
  while (wire.carry(0) || wire.carry(1)) {
  }
  ASSERT_TRUE(wire.write(0));
  wire.end(1).end_epoch(kFails);
  EXPECT_FALSE(wire.end(1).has_let_go(kFails)) << "the peer knows nothing of it";
  while (wire.carry(0) || wire.carry(1)) {
  }
  EXPECT_FALSE(wire.end(1).has_let_go(kFails)) << "a write is under way";
  EXPECT_FALSE(wire.write(0)) << "and no other one begins";
  ASSERT_TRUE(wire.finish_write(0));
  while (wire.carry(0) || wire.carry(1)) {
  }
  EXPECT_TRUE(wire.end(1).has_let_go(kFails));
}

TEST(StreamEpoch, NotesToldBeforeArriveAndLaterOnesDoNot) {
  for (const bool placed : {false, true}) {
    std::mt19937 random(3);
    const auto wire = make_wire(placed);
    Traffic fails(*wire, kFails, 700'000);
    for (int steps = 0; steps < 30; ++steps) wire->step(random);
    wire->end(0).tell({1, 0, 77}, {{1, 2}, {3, 4}});
    wire->end(0).end_epoch(kFails);
    wire->end(0).tell({1, 0, 77}, {{5, 6}, {7, 8}});
    wire->run(random);
    Note heard;
    EXPECT_EQ(wire->end(1).heard({1, 0, 77}, heard), 1u);
    EXPECT_EQ(heard, (Note{{1, 2}, {3, 4}}));
    EXPECT_FALSE(wire->end(0).faulty());
  }
}

TEST(StreamEpoch, ARegionCutOffIsReadNoMoreAndTheGetEndsRefused) {
  std::mt19937 random(1);
  ByteWire wire;
  std::vector<std::byte> memory = pattern(3 << 20, 1), target(memory.size(), kUntouched);
  wire.end(0).expose({1, 0, 9}, {memory.data(), memory.size(), nullptr, 0});
  const uint64_t ticket = wire.end(1).get({1, 0, 9}, 0, {target.data(), target.size()});
  for (int steps = 0; steps < 30; ++steps) wire.step(random);
  ASSERT_FALSE(wire.end(0).withdraw({1, 0, 9})) << "an answer is half out";
  ASSERT_TRUE(wire.end(0).cut_off({1, 0, 9}));
  std::fill(memory.begin(), memory.end(), kReused);
  Traffic goes_on(wire, kGoesOn, 1000);
  wire.run(random);
  goes_on.expect_done();
  EXPECT_TRUE(is_done(wire.end(1).received(), ticket));
  EXPECT_TRUE(wire.end(1).refused({1, 0, 9}));
  EXPECT_EQ(std::count(target.begin(), target.end(), kReused), 0);
}

// A link lives as long as two processes, and sees many communicators.
TEST(StreamEpoch, ManyCommunicatorsComeAndGo) {
  std::mt19937 random(1);
  ByteWire wire;
  for (uint64_t communicator = 1; communicator <= 10'000; ++communicator) {
    const std::array<std::byte, 8> source{};
    std::array<std::byte, 8> target{};
    const ConstBuffer out{source.data(), source.size()};
    const Buffer in{target.data(), target.size()};
    const uint64_t ticket = wire.end(1).receive({communicator, 0, 0}, 7, {&in, 1});
    wire.end(0).send({communicator, 0, 0}, 7, {&out, 1});
    wire.run(random);
    ASSERT_TRUE(is_done(wire.end(1).received(), ticket));
    for (int rank = 0; rank < 2; ++rank) wire.end(rank).end_epoch({communicator, 0});
  }
  wire.run(random);
  EXPECT_FALSE(wire.end(0).faulty() || wire.end(1).faulty());
}

TEST(StreamEpoch, APeerThatEndsWhatNobodyBeganIsCutOff) {
  ByteExchange exchange(0, 1);
  FrameHeader over;
  over.type = FrameType::kOver;
  std::array<iovec, BytesIn::kMaxEntries> entries;
  for (uint64_t i = 0; i <= ChannelTable::kMaxForeignEpochs; ++i) {
    ASSERT_FALSE(exchange.faulty()) << i;
    over.channel.communicator = i;
    exchange.prepare(entries);
    encode(over, static_cast<std::byte*>(entries[0].iov_base));
    exchange.commit(kHeaderBytes);
  }
  EXPECT_EQ(exchange.fault_status().code(), Code::kRemoteError);
  EXPECT_NE(exchange.fault_status().message().find("communicators"), std::string_view::npos);
}

}  // namespace
}  // namespace tutti::transport::stream
