// Whatever bytes an authenticated peer sends: no crash, no unbounded memory, and a sentence in the
// end. (Out of bounds accesses show under the address sanitizer; the seed is fixed.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "src/transport/stream/exchange.h"

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ChannelId;

constexpr size_t kTargetBytes = 5000;
constexpr uint32_t kSignature = 3;

constexpr ChannelId kRegion{1, 1, 100};

/// A receiver in an arbitrary but honest state: some receives posted on two of four lanes, a region
/// exposed, some gets without an answer.
struct Victim {
  explicit Victim(std::mt19937& random) {
    exchange->expose(kRegion, {region.data(), region.size(), signals.data(), 3});
    for (size_t i = random() % 3; i > 0; --i) {
      exchange->get(kRegion, 0, {answer.data(), answer.size()});
    }
    for (uint32_t lane = 0; lane < 2; ++lane) {
      for (size_t i = random() % 3; i > 0; --i) {
        const Buffer piece{target.data(), target.size()};
        exchange->receive({1, 1, lane}, kSignature, {&piece, 1});
      }
    }
  }
  std::vector<std::byte> target = std::vector<std::byte>(kTargetBytes);
  std::vector<std::byte> region = std::vector<std::byte>(kTargetBytes);
  std::vector<std::byte> answer = std::vector<std::byte>(kTargetBytes);
  std::array<std::atomic<uint64_t>, 3> signals{};
  std::unique_ptr<ByteExchange> exchange = std::make_unique<ByteExchange>(0, 1);
};

void feed(ByteExchange& exchange, const std::vector<std::byte>& bytes, std::mt19937& random) {
  std::array<iovec, BytesIn::kMaxEntries> entries;
  for (size_t at = 0; at < bytes.size() && !exchange.faulty();) {
    const size_t used = exchange.prepare(entries);
    ASSERT_GT(used, 0u);
    size_t left = std::min<size_t>(bytes.size() - at, 1 + random() % 3000);
    size_t count = 0;
    for (size_t i = 0; i < used && left > 0; ++i) {
      const size_t here = std::min(left, entries[i].iov_len);
      std::memcpy(entries[i].iov_base, bytes.data() + at + count, here);
      count += here;
      left -= here;
    }
    ASSERT_GT(count, 0u);
    exchange.commit(count);
    at += count;
  }
}

void check(const ByteExchange& exchange) {
  if (!exchange.faulty()) return;
  const Code code = exchange.fault_status().code();
  ASSERT_TRUE(code == Code::kRemoteError || code == Code::kInvalidUsage);
  ASSERT_NE(exchange.fault_status().message().find("rank 1"), std::string_view::npos);
}

/// Sends only frames that an honest peer could send, as long as it keeps count of its positions.
class HonestPeer {
 public:
  void append_message(std::vector<std::byte>& wire, uint32_t lane, std::mt19937& random) {
    FrameHeader header;
    header.channel = {1, 1, lane};
    header.signature = kSignature;
    header.message_bytes = lane < 2 ? kTargetBytes : random() % 3000;
    header.position = position_[lane];
    uint64_t left = header.message_bytes;
    do {
      header.length = static_cast<uint32_t>(std::min<uint64_t>(left, 1 + random() % 2000));
      const size_t at = wire.size();
      wire.resize(at + kHeaderBytes + header.length);
      encode(header, wire.data() + at);
      header.position += header.length + (left == header.message_bytes ? kRecordBytes : 0);
      left -= header.length;
    } while (left > 0);
    position_[lane] = header.position;
  }

  void append_credit(std::vector<std::byte>& wire, uint32_t lane, std::mt19937& random) {
    FrameHeader header;
    header.type = FrameType::kCredit;
    header.channel = {1, 1, lane};
    header.position = granted_[lane] += random() % 100'000;
    const size_t at = wire.size();
    wire.resize(at + kHeaderBytes);
    encode(header, wire.data() + at);
  }

  static void append_one_sided(std::vector<std::byte>& wire, std::mt19937& random) {
    FrameHeader header;
    header.type = random() % 2 == 0 ? FrameType::kPut : FrameType::kGet;
    header.channel = kRegion;
    header.channel.lane += random() % 4 == 0 ? 1 : 0;  // which is withdrawn
    header.message_bytes = random() % kTargetBytes;
    header.position = random() % (kTargetBytes - header.message_bytes + 1);
    if (header.type == FrameType::kPut) {
      header.length = static_cast<uint32_t>(header.message_bytes);
      header.signature =
          random() % 2 == 0 ? static_cast<uint32_t>(random() % 3) : transport::OneSided::kNoSignal;
    }
    const size_t at = wire.size();
    wire.resize(at + kHeaderBytes + header.length);
    encode(header, wire.data() + at);
  }

 private:
  uint64_t position_[4] = {};
  uint64_t granted_[4] = {kEagerBytes, kEagerBytes, kEagerBytes, kEagerBytes};
};

std::vector<std::byte> honest_traffic(std::mt19937& random) {
  HonestPeer peer;
  std::vector<std::byte> wire;
  for (int i = 0; i < 6; ++i) {
    const auto lane = static_cast<uint32_t>(random() % 4);
    if (random() % 3 == 0) {
      HonestPeer::append_one_sided(wire, random);
    } else if (random() % 4 == 0) {
      peer.append_credit(wire, lane, random);
    } else {
      peer.append_message(wire, lane, random);
    }
  }
  return wire;
}

TEST(StreamFuzz, HonestTrafficIsNoFault) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    Victim victim(random);
    feed(*victim.exchange, honest_traffic(random), random);
    ASSERT_FALSE(victim.exchange->faulty()) << victim.exchange->fault_status().message();
  }
}

TEST(StreamFuzz, RandomBytes) {
  std::mt19937 random(2);
  for (int i = 0; i < 50'000; ++i) {
    Victim victim(random);
    std::vector<std::byte> bytes(1 + random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (bytes.size() >= 4 && random() % 2 == 0) std::memcpy(bytes.data(), "TUF\1", 4);
    feed(*victim.exchange, bytes, random);
    check(*victim.exchange);
  }
}

TEST(StreamFuzz, HonestTrafficWithMutations) {
  std::mt19937 random(3);
  int faulty = 0;
  for (int i = 0; i < 100'000; ++i) {
    Victim victim(random);
    std::vector<std::byte> wire = honest_traffic(random);
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      // Half of the changes hit the first header, where they matter most.
      const size_t range = random() % 2 == 0 ? kHeaderBytes : wire.size();
      wire[random() % range] = static_cast<std::byte>(random());
    }
    if (random() % 8 == 0) wire.erase(wire.begin(), wire.begin() + 1 + random() % kHeaderBytes);
    feed(*victim.exchange, wire, random);
    check(*victim.exchange);
    const bool sound = !victim.exchange->faulty() && victim.exchange->epoch_status({1, 1}).ok();
    faulty += sound ? 0 : 1;
  }
  EXPECT_GT(faulty, 30'000) << "the mutations do not reach the checks";
}

TEST(StreamFuzz, AForeignChannelFloodIsCutOff) {
  std::mt19937 random(4);
  Victim victim(random);
  std::vector<std::byte> wire;
  FrameHeader header;
  header.type = FrameType::kCredit;
  header.position = kEagerBytes;
  for (uint32_t lane = 0; lane < 2 * ChannelTable::kMaxForeign; ++lane) {
    header.channel = {7, 1, lane};
    wire.resize(wire.size() + kHeaderBytes);
    encode(header, wire.data() + wire.size() - kHeaderBytes);
  }
  feed(*victim.exchange, wire, random);
  ASSERT_TRUE(victim.exchange->faulty());
  EXPECT_EQ(victim.exchange->fault_status().code(), Code::kRemoteError);
}

TEST(StreamFuzz, BytesWithoutCreditAreRefused) {
  std::mt19937 random(5);
  Victim victim(random);
  std::vector<std::byte> wire(2 * (kHeaderBytes + kEagerBytes));
  FrameHeader header;
  header.channel = {7, 1, 0};
  header.message_bytes = 1 << 20;
  header.length = kEagerBytes - kRecordBytes;  // all of the quota
  encode(header, wire.data());
  const size_t second = kHeaderBytes + header.length;
  header.position = kEagerBytes;
  header.length = 1;
  encode(header, wire.data() + second);
  wire.resize(second + kHeaderBytes + 1);
  feed(*victim.exchange, wire, random);
  ASSERT_TRUE(victim.exchange->faulty());
  EXPECT_NE(victim.exchange->fault_status().message().find("granted"), std::string_view::npos);
}

const char* const kBeyond = "beyond the window's end";

/// The victim's verdict on one frame.
std::string verdict_of(const FrameHeader& header, Victim& victim, std::mt19937& random) {
  std::vector<std::byte> wire(kHeaderBytes + header.length);
  encode(header, wire.data());
  feed(*victim.exchange, wire, random);
  return std::string(victim.exchange->fault_status().message());
}

TEST(StreamFuzz, OneSidedFramesBeyondTheRegionAreRefused) {
  std::mt19937 random(7);
  for (const FrameType type : {FrameType::kPut, FrameType::kGet}) {
    for (const uint64_t position :
         {kTargetBytes - 9, kTargetBytes, kTargetBytes + 1, ~uint64_t{0} - 5, ~uint64_t{0}}) {
      Victim victim(random);
      FrameHeader header;
      header.type = type;
      header.channel = kRegion;
      header.position = position;
      header.message_bytes = 10;
      if (type == FrameType::kPut) header.length = 10;
      EXPECT_NE(verdict_of(header, victim, random).find(kBeyond), std::string::npos) << position;
    }
  }
}

TEST(StreamFuzz, GetsWithoutEndAreCutOff) {
  std::mt19937 random(8);
  for (const uint32_t lane : {kRegion.lane, kRegion.lane + 1}) {
    Victim victim(random);
    FrameHeader header;
    header.type = FrameType::kGet;
    header.channel = kRegion;
    header.channel.lane = lane;
    std::string verdict;
    for (size_t i = 0; i <= transport::OneSided::kMaxGets; ++i) {
      ASSERT_FALSE(victim.exchange->faulty()) << i << ": " << verdict;
      verdict = verdict_of(header, victim, random);
    }
    EXPECT_NE(verdict.find("more gets"), std::string::npos) << verdict;
  }
}

TEST(StreamFuzz, AnswersToOtherQuestionsAreRefused) {
  std::mt19937 random(9);
  struct Case {
    FrameType type;
    uint64_t position, bytes;
  };
  for (const Case& wrong :
       {Case{FrameType::kAnswer, 1, kTargetBytes}, Case{FrameType::kAnswer, 0, kTargetBytes + 1},
        Case{FrameType::kAnswer, 0, 0}}) {
    Victim victim(random);
    victim.exchange->get(kRegion, 0, {victim.answer.data(), victim.answer.size()});
    FrameHeader header;
    header.type = wrong.type;
    header.channel = kRegion;
    header.position = wrong.position;
    header.message_bytes = wrong.bytes;
    header.length = static_cast<uint32_t>(std::min<uint64_t>(wrong.bytes, 100));
    EXPECT_NE(verdict_of(header, victim, random).find("another question"), std::string::npos);
  }
  ByteExchange alone(0, 1);
  std::vector<std::byte> wire(kHeaderBytes);
  FrameHeader header;
  header.type = FrameType::kAnswer;
  encode(header, wire.data());
  feed(alone, wire, random);
  EXPECT_NE(alone.fault_status().message().find("nobody asked"), std::string_view::npos);
}

TEST(StreamFuzz, CreditThatSinksIsRefused) {
  std::mt19937 random(6);
  Victim victim(random);
  std::vector<std::byte> wire(kHeaderBytes);
  FrameHeader header;
  header.type = FrameType::kCredit;
  header.channel = {1, 1, 0};
  header.position = kEagerBytes - 1;
  encode(header, wire.data());
  feed(*victim.exchange, wire, random);
  ASSERT_TRUE(victim.exchange->faulty());
  EXPECT_NE(victim.exchange->fault_status().message().find("credit"), std::string_view::npos);
}

}  // namespace
}  // namespace tutti::transport::stream
