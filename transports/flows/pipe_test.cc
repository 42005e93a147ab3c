// Several sockets of one link: how many, who is let in, and one of them that stands still.
#include "transports/flows/pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "transports/flows/opening.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::flows {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::FrameHeader;
using transport::stream::FrameType;
using transport::stream::kSequencedHeaderBytes;

constexpr uint64_t kPatienceNs = 60'000'000'000;

uint64_t deadline() { return monotonic_ns() + kPatienceNs; }

/// Two ends of a connection over the loopback interface.
std::array<KeptFd, 2> connection() {
  const auto any = tcp::parse_endpoint("127.0.0.1", 0);
  auto listener = tcp::listen_on(any.value());
  auto caller = tcp::dial(tcp::local_endpoint(listener.value().get()).value());
  KeptFd other;
  while (!other.valid()) {
    other = KeptFd::open([&] {
      return accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    });
  }
  return {std::move(caller).value(), std::move(other)};
}

class FramesThatCame final : public transport::stream::PipeEvents {
 public:
  void came(std::span<const std::byte> header, std::span<const std::byte> payload) override {
    FrameHeader read;
    uint64_t sequence = 0;
    EXPECT_EQ(transport::stream::decode_sequenced(header, read, sequence), nullptr);
    EXPECT_EQ(read.length, payload.size());
    EXPECT_TRUE(frames.insert(sequence).second) << sequence << " came twice";
    for (const std::byte byte : payload) EXPECT_EQ(byte, std::byte(sequence % 251));
  }
  void carried(uint64_t) override { ++left; }
  void written(uint64_t, uint32_t) override { FAIL(); }
  void arrived(uint32_t, uint32_t) override { FAIL(); }

  std::set<uint64_t> frames;
  size_t left = 0;
};

/// Sends frames of growing sequence.
struct FrameSource {
  explicit FrameSource(FlowsPipe& to) : pipe(to) {}
  bool send(size_t bytes) {
    FrameHeader header;
    header.type = FrameType::kData;
    header.length = static_cast<uint32_t>(bytes);
    header.message_bytes = bytes;
    std::array<std::byte, kSequencedHeaderBytes> encoded;
    transport::stream::encode_sequenced(header, sequence, encoded.data());
    payload.assign(bytes, std::byte(sequence % 251));
    const iovec piece{payload.data(), payload.size()};
    if (!pipe.send(CarriedFrame{sequence, encoded, {&piece, 1}})) return false;
    ++sequence;
    return true;
  }
  FlowsPipe& pipe;
  uint64_t sequence = 0;
  std::vector<std::byte> payload;
};

/// Two pipes whose first flow goes over a third hand.
struct PairOfPipes {
  explicit PairOfPipes(size_t count) {
    std::vector<KeptFd> sockets[2];
    for (size_t i = 0; i < count; ++i) {
      auto first = connection(), second = connection();
      sockets[0].push_back(std::move(first[0]));
      if (i == 0) {
        between[0] = std::move(first[1]);
        between[1] = std::move(second[0]);
        sockets[1].push_back(std::move(second[1]));
      } else {
        sockets[1].push_back(std::move(first[1]));
      }
    }
    auto proved = connection();
    for (size_t end = 0; end < 2; ++end) {
      auto made = FlowsPipe::open(tcp::PeerSocket(std::move(proved[end]), kNoDeadline),
                                  std::move(sockets[end]));
      EXPECT_TRUE(made.ok());
      pipes[end] = std::move(made).value();
    }
  }
  /// The first flow's bytes go on.
  void pass_on() {
    std::array<char, 16384> bytes;
    for (ssize_t count = 0;
         (count = recv(between[0].get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;) {
      for (ssize_t done = 0; done < count;) {
        const ssize_t sent = send(between[1].get(), bytes.data() + done,
                                  static_cast<size_t>(count - done), MSG_DONTWAIT);
        if (sent > 0) done += sent;
        if (sent < 0) (void)pipes[1]->poll(came);
      }
    }
  }
  KeptFd between[2];
  std::unique_ptr<FlowsPipe> pipes[2];
  FramesThatCame sent, came;
};

TEST(Flows, AFlowThatStandsStillDoesNotStopTheOthers) {
  PairOfPipes pair(4);
  FrameSource source(*pair.pipes[0]);
  constexpr size_t kBytes = 16 * 1024;
  const uint64_t end_ns = deadline();
  const auto step = [&] {
    (void)source.send(kBytes);
    EXPECT_TRUE(pair.pipes[0]->poll(pair.sent).ok());
    EXPECT_TRUE(pair.pipes[1]->poll(pair.came).ok());
  };
  // Frames that the first flow has taken are missing, and many more have come.
  while (pair.came.frames.size() < 200 && monotonic_ns() < end_ns) step();
  ASSERT_GE(pair.came.frames.size(), 200u);
  const bool has_gap = *pair.came.frames.rbegin() + 1 > pair.came.frames.size();
  EXPECT_TRUE(has_gap);
  // Nobody keeps more than the bound, however long it stands.
  for (int turn = 0; turn < 5000; ++turn) step();
  EXPECT_LE(pair.came.frames.size() * kBytes,
            FlowsPipe::kMostAheadBytes + 8 * kBytes + pair.came.frames.size());
  while (pair.came.frames.size() < source.sequence && monotonic_ns() < end_ns) {
    pair.pass_on();
    EXPECT_TRUE(pair.pipes[0]->poll(pair.sent).ok());
    EXPECT_TRUE(pair.pipes[1]->poll(pair.came).ok());
  }
  EXPECT_EQ(pair.came.frames.size(), source.sequence);
  EXPECT_EQ(pair.sent.left, source.sequence);
}

// Its header has been read, and nothing that comes behind it would wake anybody.
TEST(Flows, AFrameWithoutPayloadThatWasLeftUnreadComesWithTheGap) {
  auto first = connection(), second = connection(), proved = connection();
  std::vector<KeptFd> sockets;
  sockets.push_back(std::move(first[1]));
  sockets.push_back(std::move(second[1]));
  auto pipe =
      FlowsPipe::open(tcp::PeerSocket(std::move(proved[1]), kNoDeadline), std::move(sockets));
  ASSERT_TRUE(pipe.ok());
  const auto send_empty = [](int fd, uint64_t sequence) {
    FrameHeader header;
    header.type = FrameType::kCredit;
    std::array<std::byte, kSequencedHeaderBytes> encoded;
    transport::stream::encode_sequenced(header, sequence, encoded.data());
    ASSERT_EQ(send(fd, encoded.data(), encoded.size(), 0), ssize_t{kSequencedHeaderBytes});
  };
  FramesThatCame came;
  const uint64_t last = FlowsPipe::kMostAhead;  // too far ahead of 0
  const auto poll_until = [&](size_t frames) {
    const uint64_t end_ns = deadline();
    while (came.frames.size() < frames && monotonic_ns() < end_ns) {
      ASSERT_TRUE(pipe.value()->poll(came).ok());
    }
  };
  for (uint64_t sequence = 1; sequence <= last; ++sequence) {
    send_empty(second[0].get(), sequence);
  }
  poll_until(last - 1);
  for (int turn = 0; turn < 100; ++turn) ASSERT_TRUE(pipe.value()->poll(came).ok());
  EXPECT_EQ(came.frames.size(), last - 1);
  send_empty(first[0].get(), 0);
  poll_until(last);
  for (int turn = 0; turn < 100; ++turn) ASSERT_TRUE(pipe.value()->poll(came).ok());
  EXPECT_EQ(came.frames.size(), last + 1);
}

TEST(Flows, FramesThatNoTuttiSendsEndTheLink) {
  PairOfPipes pair(2);
  const std::string noise(1000, 'x');
  ASSERT_GT(send(pair.between[1].get(), noise.data(), noise.size(), 0), 0);
  const uint64_t end_ns = deadline();
  Status status;
  while (status.ok() && monotonic_ns() < end_ns) status = pair.pipes[1]->poll(pair.came);
  EXPECT_EQ(status.code(), Code::kRemoteError) << status.message();
}

TEST(Flows, AreAsManyAsTheRoundTripAsksFor) {
  EXPECT_EQ(flows_for({}, 0), 1u);
  EXPECT_EQ(flows_for({}, 200'000), 1u);
  EXPECT_EQ(flows_for({}, 20'000'000), 5u);
  EXPECT_EQ(flows_for({}, 150'000'000), kMostFlows);
}

TEST(Flows, AreAsManyAsTheDescriptionOfTheNetworkAsksFor) {
  const transport::PathRates slow{.latency_ns = 20e6, .bytes_per_ns = 0.00625};  // 50 Mbit/s
  EXPECT_EQ(flows_for(slow, 150'000'000), 1u);
  const transport::PathRates fast{.latency_ns = 5e6, .bytes_per_ns = 5};  // 40 Gbit/s
  EXPECT_EQ(flows_for(fast, 0), 11u);
  EXPECT_EQ(flows_for({.bytes_per_ns = 2.5}, 20'000'000), 11u);
  EXPECT_EQ(flows_for({.latency_ns = 10e6}, 0), 5u);
  // The rate of few sockets says nothing of the network's, unless it is more.
  EXPECT_EQ(flows_for({.latency_ns = 10e6, .seen_bytes_per_ns = 0.001}, 0), 5u);
  EXPECT_EQ(flows_for({.latency_ns = 10e6, .seen_bytes_per_ns = 2.5}, 0), 11u);
}

TEST(Flows, TheLargerWishCountsAndStrangersAreNotLetIn) {
  auto proved = connection();
  Result<std::vector<KeptFd>> opened[2] = {Status::internal_error(""), Status::internal_error("")};
  std::thread other([&] { opened[1] = open_flows(proved[1].get(), 2, false, deadline()); });
  opened[0] = open_flows(proved[0].get(), 5, true, deadline());
  other.join();
  for (const auto& sockets : opened) {
    ASSERT_TRUE(sockets.ok()) << sockets.status().message();
    EXPECT_EQ(sockets.value().size(), 5u);
  }
  // The order is the same on both ends.
  for (size_t i = 0; i < 5; ++i) {
    const char byte = static_cast<char>('a' + i);
    ASSERT_EQ(send(opened[0].value()[i].get(), &byte, 1, 0), 1);
    char heard = 0;
    const uint64_t end_ns = deadline();
    while (recv(opened[1].value()[i].get(), &heard, 1, 0) != 1 && monotonic_ns() < end_ns) {
    }
    EXPECT_EQ(heard, byte);
  }
}

TEST(Flows, AHelloThatIsNoneIsRefused) {
  auto proved = connection();
  const std::string noise(64, 'x');
  ASSERT_GT(send(proved[1].get(), noise.data(), noise.size(), 0), 0);
  EXPECT_EQ(open_flows(proved[0].get(), 2, true, deadline()).status().code(), Code::kRemoteError);
}

}  // namespace
}  // namespace tutti::transports::flows
