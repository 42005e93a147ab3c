// The words of two ends about their ports, and a library that is none.
#include "transports/verbs/hello.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "src/base/clock.h"
#include "transports/verbs/library.h"

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;

struct Sockets {
  Sockets() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0); }
  ~Sockets() {
    for (const int end : ends) close(end);
  }
  int ends[2];
};

PortsHello example() {
  PortsHello hello;
  hello.ports.resize(2);
  hello.ports[0].mtu = 3;
  hello.ports[1].mtu = 5;
  hello.ports[1].lid = 0x1234;
  hello.ports[1].gid.raw[15] = 7;
  hello.slots = 16;
  hello.slot_bytes = 16384;
  hello.wish = {8, 128 * 1024, 64};
  return hello;
}

TEST(VerbsHello, IsHeardAsItWasSaid) {
  const Sockets sockets;
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  ASSERT_TRUE(send_hello(sockets.ends[0], example(), deadline_ns).ok());
  const std::vector<QueuePairEnd> pairs{{0x123456, 0xabcdef}, {3, 4}};
  ASSERT_TRUE(send_pairs(sockets.ends[0], pairs, deadline_ns).ok());
  const Result<PortsHello> heard = receive_hello(sockets.ends[1], deadline_ns);
  ASSERT_TRUE(heard.ok()) << heard.status().message();
  ASSERT_EQ(heard.value().ports.size(), 2u);
  EXPECT_EQ(heard.value().ports[0].mtu, 3);
  EXPECT_EQ(heard.value().ports[1].mtu, 5);
  EXPECT_EQ(heard.value().ports[1].lid, 0x1234);
  EXPECT_EQ(heard.value().ports[1].gid.raw[15], 7);
  EXPECT_EQ(heard.value().wish, example().wish);
  const auto ends = receive_pairs(sockets.ends[1], 2, deadline_ns);
  ASSERT_TRUE(ends.ok()) << ends.status().message();
  EXPECT_EQ(ends.value()[0].number, 0x123456u);
  EXPECT_EQ(ends.value()[0].sequence, 0xabcdefu);
  EXPECT_EQ(ends.value()[1].sequence, 4u);
}

TEST(VerbsHello, NonsenseIsRefused) {
  const std::function<void(PortsHello&)> spoilers[] = {
      [](PortsHello& hello) { hello.ports[0].mtu = 0; },
      [](PortsHello& hello) { hello.ports[1].mtu = 6; },
      [](PortsHello& hello) { hello.ports.resize(5); },
      [](PortsHello& hello) { hello.ports.clear(); },
      [](PortsHello& hello) { hello.slots = 1; },
      [](PortsHello& hello) { hello.slots = 1u << 20; },
      [](PortsHello& hello) { hello.slot_bytes = ~0u; },
      [](PortsHello& hello) { hello.wish.pairs = 17; },
      [](PortsHello& hello) { hello.wish.segment_bytes = 1; },
      [](PortsHello& hello) { hello.wish.depth = 1u << 20; }};
  for (const auto& spoil : spoilers) {
    const Sockets sockets;
    const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
    PortsHello hello = example();
    spoil(hello);
    ASSERT_TRUE(send_hello(sockets.ends[0], hello, deadline_ns).ok());
    EXPECT_EQ(receive_hello(sockets.ends[1], deadline_ns).status().code(), Code::kRemoteError);
  }
}

TEST(VerbsHello, PairsThatCannotBeAreRefused) {
  const std::vector<QueuePairEnd> wrong[] = {
      {{~0u, 1}, {2, 3}}, {{1, 1u << 24}, {2, 3}}, {{1, 2}}, {{1, 2}, {3, 4}, {5, 6}}};
  for (const auto& pairs : wrong) {
    const Sockets sockets;
    const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
    ASSERT_TRUE(send_pairs(sockets.ends[0], pairs, deadline_ns).ok());
    const auto heard = receive_pairs(sockets.ends[1], 2, deadline_ns);
    EXPECT_EQ(heard.status().code(), Code::kRemoteError);
  }
}

TEST(VerbsHello, AnotherProtocolIsRefused) {
  const Sockets sockets;
  const std::array<char, 48> noise{'G', 'E', 'T', ' '};
  ASSERT_EQ(write(sockets.ends[0], noise.data(), noise.size()), 48);
  const Result<PortsHello> heard = receive_hello(sockets.ends[1], monotonic_ns() + kPatienceNs);
  EXPECT_EQ(heard.status().code(), Code::kRemoteError);
}

TEST(VerbsHello, OfClosedLanesBothEndsHearWhatWasSaid) {
  const Sockets sockets;
  LaneWords one, other;
  one.say({3, 0x123456789abc, LaneFault::kSilence});
  one.say({0, 0, LaneFault::kOfPeer});
  one.flush(sockets.ends[0]);
  for (const ClosedLane& said :
       {ClosedLane{3, 0x123456789abc, LaneFault::kSilence}, ClosedLane{0, 0, LaneFault::kOfPeer}}) {
    const auto heard = other.hear(sockets.ends[1], 4);
    ASSERT_TRUE(heard.ok() && heard.value());
    EXPECT_EQ(heard.value()->lane, said.lane);
    EXPECT_EQ(heard.value()->taken, said.taken);
    EXPECT_EQ(heard.value()->fault, said.fault);
  }
  EXPECT_FALSE(other.hear(sockets.ends[1], 4).value());
  one.say({4, 0, LaneFault::kError});
  one.flush(sockets.ends[0]);
  EXPECT_EQ(other.hear(sockets.ends[1], 4).status().code(), Code::kRemoteError);
  const std::array<char, 16> noise{'x'};
  ASSERT_EQ(write(sockets.ends[0], noise.data(), noise.size()), 16);
  EXPECT_EQ(other.hear(sockets.ends[1], 4).status().code(), Code::kRemoteError);
}

TEST(VerbsLibrary, ThatIsNotThereOrLacksAFunctionIsNamed) {
  const auto none = load_library_from("libno-such-verbs.so.1");
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_NE(none.status().message().find("libno-such-verbs.so.1"), std::string_view::npos);
  const auto other = load_library_from("libc.so.6");
  EXPECT_EQ(other.status().code(), Code::kUnsupported);
  EXPECT_NE(other.status().message().find("has no ibv_get_device_list of version IBVERBS_1.1"),
            std::string_view::npos)
      << other.status().message();
}

}  // namespace
}  // namespace tutti::transports::verbs
