// Frames of high priority go before others, behind at most one that has begun: by counts of frames
// on the wire, however it cuts the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "src/transport/stream/message_pipe.h"

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ConstBuffer;
using transport::EpochId;
using transport::Priority;

constexpr EpochId kLow{1, 0}, kHigh{2, 0};
constexpr size_t kLowBytes = 8 << 20, kHighBytes = 64 * 1024;
constexpr int kRounds = 200;

/// The begins of frames of DATA, in their order on the wire, of whatever bytes are added.
class FrameLog {
 public:
  void add(const std::byte* data, size_t bytes) {
    while (bytes > 0) {
      const size_t payload = std::min(payload_left_, bytes);
      payload_left_ -= payload;
      data += payload;
      bytes -= payload;
      if (bytes == 0) return;
      if (header_.empty()) begun_late_ = high_is_sent_;
      const size_t here = std::min(bytes, kHeaderBytes - header_.size());
      header_.insert(header_.end(), data, data + here);
      data += here;
      bytes -= here;
      if (header_.size() == kHeaderBytes) read_header();
    }
  }
  /// From now on frames that begin are counted until one of high priority comes.
  void count() { high_is_sent_ = true; }
  /// So many frames of low priority began in between; -1: none of high priority came.
  int low_frames_before_high() const { return before_; }

 private:
  void read_header() {
    FrameHeader header;
    ASSERT_EQ(decode(header_.data(), header), nullptr);
    header_.clear();
    payload_left_ = header.length;
    if (header.type != FrameType::kData) return;
    if (header.channel.communicator == kHigh.communicator) {
      if (before_ < 0) before_ = low_;
    } else if (begun_late_) {
      ++low_;
    }
  }

  std::vector<std::byte> header_;
  size_t payload_left_ = 0;
  bool high_is_sent_ = false;
  bool begun_late_ = false;  // the frame of header_
  int low_ = 0, before_ = -1;
};

struct Transfer {
  Transfer(size_t bytes, unsigned seed)
      : source(bytes, static_cast<std::byte>(seed)), target(bytes) {}
  uint64_t post(FrameExchange& to, EpochId epoch) {
    const Buffer in{target.data(), target.size()};
    return to.receive({epoch.communicator, epoch.epoch, 0}, 7, {&in, 1});
  }
  uint64_t send(FrameExchange& from, EpochId epoch) {
    const ConstBuffer out{source.data(), source.size()};
    return from.send({epoch.communicator, epoch.epoch, 0}, 7, {&out, 1});
  }
  std::vector<std::byte> source, target;
};

/// Writes up to `most` bytes of `from` into the log and to `to`. False: nothing is left.
bool write_some(ByteExchange& from, ByteExchange& to, size_t most, FrameLog* log) {
  const std::span<const iovec> entries = from.gather();
  size_t left = std::min<size_t>(total_bytes(entries), most);
  const size_t count = left;
  std::vector<std::byte> wire;
  for (const iovec& entry : entries) {
    const size_t here = std::min(left, entry.iov_len);
    const auto* data = static_cast<const std::byte*>(entry.iov_base);
    wire.insert(wire.end(), data, data + here);
    left -= here;
  }
  if (count == 0) return false;
  from.wrote(count);
  if (log != nullptr) log->add(wire.data(), wire.size());
  std::array<iovec, BytesIn::kMaxEntries> targets;
  for (size_t at = 0; at < wire.size();) {
    const size_t used = to.prepare(targets);
    size_t taken = 0;
    for (size_t i = 0; i < used && at + taken < wire.size(); ++i) {
      const size_t here = std::min(targets[i].iov_len, wire.size() - at - taken);
      std::memcpy(targets[i].iov_base, wire.data() + at + taken, here);
      taken += here;
    }
    to.commit(taken);
    at += taken;
  }
  return true;
}

/// Low frames that begin between a high send and its first frame.
int frames_before_high(unsigned round, bool prioritized) {
  std::mt19937 random(round);
  ByteExchange zero(0, 1), one(1, 0);
  Transfer low(kLowBytes, round), high(kHighBytes, round + 1);
  if (prioritized) zero.prioritize(kHigh, Priority::kHigh);
  low.post(one, kLow);
  const uint64_t received = high.post(one, kHigh);
  while (write_some(one, zero, 1 << 20, nullptr)) {
  }
  low.send(zero, kLow);
  FrameLog log;
  for (size_t sent = 0, until = random() % (6 << 20); sent < until;) {
    const size_t most = 1 + random() % 300'000;
    EXPECT_TRUE(write_some(zero, one, most, &log));
    sent += most;
  }
  high.send(zero, kHigh);
  log.count();
  while (write_some(zero, one, 1 + random() % 300'000, &log) ||
         write_some(one, zero, 1 << 20, nullptr)) {
  }
  EXPECT_TRUE(one.received().done_under_lock(received));
  EXPECT_EQ(low.source, low.target);
  EXPECT_EQ(high.source, high.target);
  return log.low_frames_before_high();
}

TEST(StreamPriority, AShortUrgentMessageWaitsForOneFrameOfALongOne) {
  for (unsigned round = 0; round < kRounds; ++round) {
    const int frames = frames_before_high(round, true);
    ASSERT_GE(frames, 0);
    ASSERT_LE(frames, 1) << "round " << round;
  }
}

// The count above can be larger.
TEST(StreamPriority, WithoutPriorityItWaitsForABatch) {
  int most = 0;
  for (unsigned round = 0; round < 20; ++round) {
    most = std::max(most, frames_before_high(round, false));
  }
  EXPECT_GT(most, 1);
}

TEST(StreamPriority, MessagesOneByOneGoFirstAtOnce) {
  MessageExchange zero(0, 1), one(1, 0);
  Transfer low(kLowBytes, 1), high(kHighBytes, 2);
  zero.prioritize(kHigh, Priority::kHigh);
  low.post(one, kLow);
  high.post(one, kHigh);
  const auto carry = [](MessageExchange& from, MessageExchange& to) {
    const auto frame = from.next(8192);
    if (!frame) return uint64_t{0};
    std::vector<std::byte> payload;
    for (const iovec& piece : frame->payload) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      payload.insert(payload.end(), data, data + piece.iov_len);
    }
    FrameHeader header;
    uint64_t sequence = 0;
    EXPECT_EQ(decode_sequenced(frame->header, header, sequence), nullptr);
    to.take(frame->header, payload);
    from.carried(frame->name);
    return header.channel.communicator;
  };
  while (carry(one, zero) != 0) {
  }
  low.send(zero, kLow);
  for (int frame = 0; frame < 100; ++frame) EXPECT_EQ(carry(zero, one), kLow.communicator);
  high.send(zero, kHigh);
  for (size_t frame = 0; frame < kHighBytes / 8192; ++frame) {
    EXPECT_EQ(carry(zero, one), kHigh.communicator);
  }
  // A channel that changes its priority while it waits changes its place.
  zero.prioritize(kLow, Priority::kHigh);
  zero.prioritize(kLow, Priority::kNormal);
  while (carry(zero, one) != 0 || carry(one, zero) != 0) {
  }
  EXPECT_EQ(low.source, low.target);
  EXPECT_EQ(high.source, high.target);
}

}  // namespace
}  // namespace tutti::transport::stream
