// Two exchanges joined by an imagined pipe that cuts the bytes anywhere.
#include "src/transport/stream/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;

constexpr ChannelId kChannel{1, 0, 0};
constexpr std::byte kUntouched{0xee};

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  return data;
}

/// Rank 0 and rank 1, and what is on the wire between them.
class Pair {
 public:
  explicit Pair(unsigned seed = 1, size_t longest_cut = 100'000)
      : random_(seed), longest_cut_(longest_cut) {}

  ByteExchange& end(int rank) { return rank == 0 ? zero_ : one_; }

  /// Moves bytes until nothing moves.
  void run() {
    while (move(0) | move(1)) {
    }
  }

  /// Some bytes each way; more may be left.
  void run_once() {
    move(0);
    move(1);
  }

  bool is_sent(int rank, uint64_t ticket) { return is_done(end(rank).sent(), ticket); }
  bool is_received(int rank, uint64_t ticket) { return is_done(end(rank).received(), ticket); }

  uint64_t send(int rank, ChannelId id, const std::vector<std::byte>& data, uint32_t sig = 7) {
    const ConstBuffer piece{data.data(), data.size()};
    return end(rank).send(id, sig, {&piece, 1});
  }
  uint64_t receive(int rank, ChannelId id, std::vector<std::byte>& data, uint32_t sig = 7) {
    const Buffer piece{data.data(), data.size()};
    return end(rank).receive(id, sig, {&piece, 1});
  }

 private:
  static bool is_done(const TicketWindow& window, uint64_t ticket) {
    return window.done(ticket) == TicketWindow::TicketState::kDone ||
           window.done_under_lock(ticket);
  }

  size_t cut(size_t most) { return std::min<size_t>(most, 1 + random_() % longest_cut_); }

  bool move(int rank) {
    const bool wrote = write(end(rank), wire_[rank]);
    const bool read = this->read(end(1 - rank), wire_[rank]);
    return wrote || read;
  }

  bool write(ByteExchange& from, std::deque<std::byte>& wire) {
    const std::span<const iovec> entries = from.gather();
    const size_t count = entries.empty() ? 0 : cut(total_bytes(entries));
    size_t left = count;
    for (const iovec& entry : entries) {
      const size_t here = std::min(left, entry.iov_len);
      const auto* data = static_cast<const std::byte*>(entry.iov_base);
      wire.insert(wire.end(), data, data + here);
      left -= here;
    }
    if (count > 0) from.wrote(count);
    return count > 0;
  }

  bool read(ByteExchange& to, std::deque<std::byte>& wire) {
    if (wire.empty() || to.faulty()) return false;
    std::array<iovec, BytesIn::kMaxEntries> entries;
    const size_t used = to.prepare(entries);
    size_t left = cut(std::min<size_t>(wire.size(), total_bytes({entries.data(), used})));
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

  std::mt19937 random_;
  size_t longest_cut_;
  ByteExchange zero_{0, 1};
  ByteExchange one_{1, 0};
  std::deque<std::byte> wire_[2];
};

TEST(StreamExchange, EverySizeInEveryCut) {
  for (const size_t cut : {1, 7, 50, 4096, 1'000'000}) {
    Pair pair(3, cut);
    const size_t largest = cut < 50 ? 3000 : 1 << 20;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{47}, size_t{48}, size_t{65}, largest}) {
      for (const bool early : {false, true}) {
        const auto source = pattern(bytes, 5);
        std::vector<std::byte> target(bytes);
        uint64_t sent = 0;
        if (early) {
          sent = pair.send(0, kChannel, source);
          pair.run();
        }
        const uint64_t received = pair.receive(1, kChannel, target);
        if (!early) sent = pair.send(0, kChannel, source);
        pair.run();
        ASSERT_TRUE(pair.is_sent(0, sent)) << bytes << " in cuts of " << cut;
        ASSERT_TRUE(pair.is_received(1, received)) << bytes << " in cuts of " << cut;
        ASSERT_EQ(source, target);
      }
    }
  }
}

// Beside messages of a channel, which take turns with them.
TEST(StreamExchange, PutsAndGetsInEveryCut) {
  for (const size_t cut : {1, 7, 50, 4096, 1'000'000}) {
    Pair pair(5, cut);
    const size_t largest = cut < 50 ? 3000 : 600'000;
    std::vector<std::byte> memory(largest);
    std::array<std::atomic<uint64_t>, 2> signals{};
    const ChannelId region{1, 0, 9};
    pair.end(1).expose(region, {memory.data(), memory.size(), signals.data(), 2});
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{47}, size_t{48}, size_t{65}, largest}) {
      const auto source = pattern(bytes, static_cast<unsigned>(cut)), message = pattern(900, 3);
      std::vector<std::byte> back(bytes), target(900);
      const uint64_t raised = signals[1].load();
      const uint64_t offset = largest - bytes;
      const uint64_t received = pair.receive(1, kChannel, target);
      const uint64_t put = pair.end(0).put(region, offset, {source.data(), bytes}, 1);
      const uint64_t got = pair.end(0).get(region, offset, {back.data(), bytes});
      pair.send(0, kChannel, message);
      pair.run();
      ASSERT_TRUE(pair.is_sent(0, put)) << bytes << " in cuts of " << cut;
      ASSERT_TRUE(pair.is_received(0, got)) << bytes << " in cuts of " << cut;
      ASSERT_TRUE(pair.is_received(1, received)) << bytes << " in cuts of " << cut;
      ASSERT_EQ(back, source);
      ASSERT_EQ(target, message);
      ASSERT_EQ(signals[1].load(), raised + 1);
    }
    ASSERT_TRUE(pair.end(1).withdraw(region));
    std::vector<std::byte> back(10);
    const auto source = pattern(largest, 1), before = memory;
    pair.end(0).put(region, 0, {source.data(), source.size()}, 1);
    const uint64_t refused = pair.end(0).get(region, 0, {back.data(), back.size()});
    pair.run();
    ASSERT_TRUE(pair.is_received(0, refused));
    ASSERT_TRUE(pair.end(0).refused(region));
    ASSERT_FALSE(pair.end(0).faulty() || pair.end(1).faulty());
    ASSERT_EQ(memory, before);
  }
}

TEST(StreamExchange, NothingBeyondTheQuotaLeavesWithoutAReceive) {
  Pair pair;
  const auto source = pattern(1 << 20, 1);
  const uint64_t sent = pair.send(0, kChannel, source);
  pair.run();
  EXPECT_FALSE(pair.is_sent(0, sent));
  EXPECT_TRUE(pair.end(0).gather().empty());
  std::vector<std::byte> target(source.size());
  const uint64_t received = pair.receive(1, kChannel, target);
  pair.run();
  EXPECT_TRUE(pair.is_received(1, received));
  EXPECT_EQ(source, target);
}

TEST(StreamExchange, EmptyMessagesCostCreditToo) {
  Pair pair;
  const std::vector<std::byte> nothing;
  uint64_t last = 0;
  const uint64_t fit = kEagerBytes / kRecordBytes;
  for (uint64_t i = 0; i < fit + 1; ++i) last = pair.send(0, kChannel, nothing);
  pair.run();
  EXPECT_TRUE(pair.is_sent(0, last - 1));
  EXPECT_FALSE(pair.is_sent(0, last));
  std::vector<std::byte> target;
  for (uint64_t i = 0; i < fit + 1; ++i) pair.receive(1, kChannel, target);
  pair.run();
  EXPECT_TRUE(pair.is_sent(0, last));
}

TEST(StreamExchange, ALongMessageDoesNotHoldUpOthers) {
  Pair pair;
  const auto large = pattern(1 << 20, 1);
  const auto small = pattern(100, 2);
  pair.send(0, kChannel, large);
  pair.send(0, {2, 0, 0}, small);
  std::vector<std::byte> target(small.size());
  const uint64_t received = pair.receive(1, {2, 0, 0}, target);
  pair.run();
  EXPECT_TRUE(pair.is_received(1, received));
  EXPECT_EQ(small, target);
}

TEST(StreamExchange, MismatchIsSaidAlikeOnBothSides) {
  for (const bool early : {false, true}) {
    Pair pair;
    const auto source = pattern(64, 1);
    std::vector<std::byte> target(128);
    if (early) {
      pair.send(1, kChannel, source, 0x11);
      pair.run();
    }
    pair.receive(0, kChannel, target, 0x22);
    if (!early) pair.send(1, kChannel, source, 0x11);
    pair.run();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_FALSE(pair.end(rank).faulty());
      const Status status = pair.end(rank).epoch_status({1, 0});
      EXPECT_EQ(status.code(), Code::kInvalidUsage);
      const std::string text(status.message());
      EXPECT_NE(text.find("rank 1 sent 64 bytes where rank 0 expects 128"), text.npos) << text;
      EXPECT_NE(text.find("0x11"), text.npos) << text;
      EXPECT_NE(text.find("0x22"), text.npos) << text;
    }
  }
}

/// The header that the peer sends, and nothing of the payload.
void feed(ByteExchange& to, const FrameHeader& header) {
  std::array<std::byte, kHeaderBytes> bytes;
  encode(header, bytes.data());
  std::array<iovec, BytesIn::kMaxEntries> entries;
  ASSERT_GT(to.prepare(entries), 0u);
  ASSERT_GE(entries[0].iov_len, bytes.size());
  std::memcpy(entries[0].iov_base, bytes.data(), bytes.size());
  to.commit(bytes.size());
}

FrameHeader get_of(ChannelId region, uint64_t bytes) {
  FrameHeader header;
  header.type = FrameType::kGet;
  header.channel = region;
  header.message_bytes = bytes;
  return header;
}

/// Whether what is left to write lies in this memory.
bool reads(ByteExchange& from, const std::vector<std::byte>& memory) {
  const std::span<const iovec> entries = from.gather();
  return std::any_of(entries.begin(), entries.end(), [&](const iovec& entry) {
    const auto* data = static_cast<const std::byte*>(entry.iov_base);
    return data >= memory.data() && data < memory.data() + memory.size();
  });
}

// Its owner frees the region as soon as withdraw() says so.
TEST(StreamExchange, AFaultEndsAnswersThatAreHalfOut) {
  constexpr ChannelId kRegion{1, 0, 9};
  constexpr size_t kWritten = 1000;
  FrameHeader unasked;
  unasked.type = FrameType::kAnswer;
  unasked.channel = kRegion;
  {
    ByteExchange exchange(0, 1);
    auto memory = pattern(3 << 20, 1);
    const auto before = memory;
    exchange.expose(kRegion, {memory.data(), memory.size(), nullptr, 0});
    feed(exchange, get_of(kRegion, memory.size()));
    ASSERT_TRUE(reads(exchange, memory));
    exchange.wrote(kHeaderBytes + kWritten);
    ASSERT_TRUE(reads(exchange, memory));
    feed(exchange, unasked);
    ASSERT_TRUE(exchange.faulty());
    EXPECT_TRUE(exchange.withdraw(kRegion));
    std::fill(memory.begin(), memory.end(), std::byte{0x55});  // the caller's again
    EXPECT_FALSE(reads(exchange, memory));
    // The frame that is half out ends with the bytes it is made of.
    const std::span<const iovec> rest = exchange.gather();
    ASSERT_EQ(total_bytes(rest), kMaxFrameBytes - kWritten);
    EXPECT_EQ(std::memcmp(rest[0].iov_base, before.data() + kWritten, rest[0].iov_len), 0);
    exchange.wrote(total_bytes(rest));
    EXPECT_TRUE(exchange.idle());
  }
}

// A message that is refused must not look done, however many are refused.
TEST(StreamExchange, MoreRefusalsThanAreRememberedEndTheLink) {
  constexpr uint32_t kRemembered = 1024;
  const auto region = [](uint32_t lane) { return ChannelId{1, 0, lane}; };
  for (const bool gets : {false, true}) {
    Pair pair;
    std::vector<std::byte> data(8);
    const auto try_one = [&](uint32_t lane) {
      const uint64_t ticket = gets
                                  ? pair.end(0).get(region(lane), 0, {data.data(), data.size()})
                                  : pair.end(0).put(region(lane), 0, {data.data(), data.size()}, 0);
      pair.run();
      return ticket;
    };
    for (uint32_t lane = 0; lane < kRemembered; ++lane) {
      const uint64_t ticket = try_one(lane);
      ASSERT_TRUE(gets ? pair.is_received(0, ticket) : pair.is_sent(0, ticket));
      ASSERT_TRUE(pair.end(0).refused(region(lane)));
    }
    (void)try_one(0);  // not one more
    ASSERT_FALSE(pair.end(0).faulty() || pair.end(1).faulty());
    const uint64_t last = try_one(kRemembered);
    const Status& fault = pair.end(gets ? 0 : 1).fault_status();
    EXPECT_EQ(fault.code(), Code::kRemoteError);
    EXPECT_NE(fault.message().find("more"), fault.message().npos) << fault.message();
    if (gets) {
      EXPECT_FALSE(pair.is_received(0, last));
    }
  }
}

// The bytes that arrived are those that were sent, and nothing was written beyond.
void expect_untouched_rest(const std::vector<std::byte>& source,
                           const std::vector<std::byte>& target) {
  const auto differs = std::mismatch(source.begin(), source.end(), target.begin());
  const auto written =
      std::find_if(differs.second, target.end(), [](std::byte byte) { return byte != kUntouched; });
  EXPECT_EQ(written, target.end()) << "byte " << written - target.begin() << " of a message of "
                                   << source.size() << " is not what was sent";
}

TEST(StreamExchange, AMismatchLeavesOtherCommunicatorsAlone) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Pair pair(seed, 20'000);
    const auto large = pattern(1 << 20, 1);
    std::vector<std::byte> large_target(large.size()), target(8);
    const uint64_t received = pair.receive(1, {9, 0, 0}, large_target);
    const uint64_t sent = pair.send(0, {9, 0, 0}, large);
    pair.receive(0, kChannel, target);
    const auto odd = pattern(9, 0);
    pair.send(1, kChannel, odd);
    pair.run();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(pair.end(rank).epoch_status({1, 0}).code(), Code::kInvalidUsage);
      EXPECT_TRUE(pair.end(rank).epoch_status({9, 0}).ok());
    }
    ASSERT_TRUE(pair.is_received(1, received) && pair.is_sent(0, sent));
    EXPECT_EQ(large, large_target);
    EXPECT_EQ(target, std::vector<std::byte>(8));
  }
}

TEST(StreamExchange, NotesArriveBehindAFrameThatIsHalfOut) {
  constexpr ChannelId kNotes{9, 0, 77};
  for (unsigned seed = 0; seed < 30; ++seed) {
    Pair pair(seed, 20'000);
    auto large = pattern(1 << 20, 1);
    const auto sent = large;
    std::vector<std::byte> target(large.size(), kUntouched);
    pair.receive(1, {9, 0, 0}, target);
    const uint64_t ticket = pair.send(0, {9, 0, 0}, large);
    for (unsigned turn = 0; turn < 1 + seed; ++turn) pair.run_once();
    const transport::Note note{{seed, 2}, {3, 4}};
    pair.end(0).tell(kNotes, note);
    if (seed % 2 == 0) pair.run_once();  // the note may be part of a batch
    pair.end(0).leave();
    std::fill(large.begin(), large.end(), std::byte{0x55});  // the caller's again
    pair.run();
    transport::Note heard;
    EXPECT_EQ(pair.end(1).heard(kNotes, heard), 1u) << seed;
    EXPECT_EQ(heard, note);
    EXPECT_FALSE(pair.end(1).faulty());
    EXPECT_TRUE(pair.end(0).idle());
    expect_untouched_rest(sent, target);
    if (!pair.is_sent(0, ticket)) {
      EXPECT_NE(sent, target);
    }
  }
}

TEST(StreamExchange, AnOlderEpochIsDiscarded) {
  Pair pair;
  const auto old_data = pattern(1000, 1);
  const auto new_data = pattern(1000, 2);
  std::vector<std::byte> old_target(1000);
  std::vector<std::byte> target(1000);
  const uint64_t never = pair.receive(1, {1, 0, 0}, old_target);
  const uint64_t received = pair.receive(1, {1, 1, 0}, target);
  pair.send(0, {1, 0, 0}, old_data);
  pair.send(0, {1, 1, 0}, new_data);
  pair.run();
  EXPECT_FALSE(pair.is_received(1, never));
  EXPECT_EQ(old_target, std::vector<std::byte>(1000));
  EXPECT_TRUE(pair.is_received(1, received));
  EXPECT_EQ(new_data, target);
  pair.receive(1, {1, 0, 0}, old_target);
  EXPECT_EQ(pair.end(1).fault_status().code(), Code::kInternalError);
}

TEST(StreamExchange, RandomTrafficOnManyChannels) {
  struct Transfer {
    std::vector<std::byte> source, target;
    uint64_t sent = 0, received = 0;
    ChannelId id;
  };
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Pair pair(seed, 30'000);
    std::vector<std::unique_ptr<Transfer>> all;
    std::deque<Transfer*> unsent, unposted;
    for (int i = 0; i < 200; ++i) {
      auto transfer = std::make_unique<Transfer>();
      const size_t bytes = random() % (random() % 4 == 0 ? 300'000 : 600);
      transfer->source = pattern(bytes, static_cast<unsigned>(i));
      transfer->target.resize(bytes);
      transfer->id = {random() % 3, 0, static_cast<uint32_t>(random() % 3)};
      unsent.push_back(transfer.get());
      unposted.push_back(transfer.get());
      all.push_back(std::move(transfer));
    }
    while (!unsent.empty() || !unposted.empty()) {
      if (!unsent.empty() && (unposted.empty() || random() % 2 == 0)) {
        unsent.front()->sent = pair.send(0, unsent.front()->id, unsent.front()->source);
        unsent.pop_front();
      } else {
        unposted.front()->received =
            pair.receive(1, unposted.front()->id, unposted.front()->target);
        unposted.pop_front();
      }
      if (random() % 5 == 0) pair.run();
    }
    pair.run();
    for (const auto& transfer : all) {
      ASSERT_TRUE(pair.is_sent(0, transfer->sent));
      ASSERT_TRUE(pair.is_received(1, transfer->received));
      ASSERT_EQ(transfer->source, transfer->target);
    }
  }
}

TEST(StreamExchange, NotesComeBesideMessagesAndTheLastOneCounts) {
  Pair pair(3, 60);
  constexpr ChannelId kNotes{1, 0, ~0u};
  transport::Note heard;
  EXPECT_EQ(pair.end(1).heard(kNotes, heard), 0u);
  const auto data = pattern(300'000, 1);
  std::vector<std::byte> target(data.size());
  const uint64_t received = pair.receive(1, kChannel, target);
  pair.send(0, kChannel, data);
  pair.end(0).tell(kNotes, {{1, 2}, {3, 4}});
  pair.end(0).tell(kNotes, {{5, 6}, {7, ~uint64_t{0}}});
  pair.run();
  EXPECT_TRUE(pair.is_received(1, received));
  EXPECT_EQ(target, data);
  EXPECT_EQ(pair.end(1).heard(kNotes, heard), 1u);
  EXPECT_EQ(heard, (transport::Note{{5, 6}, {7, ~uint64_t{0}}}));
  pair.end(0).tell(kNotes, {});
  pair.run();
  EXPECT_EQ(pair.end(1).heard(kNotes, heard), 2u);
  EXPECT_EQ(heard, transport::Note{});
  // Where nobody takes messages, notes still pass.
  pair.send(0, kChannel, data);
  pair.run();
  pair.end(0).tell(kNotes, {{9, 0}, {0, 0}});
  pair.run();
  EXPECT_EQ(pair.end(1).heard(kNotes, heard), 3u);
}

}  // namespace
}  // namespace tutti::transport::stream
