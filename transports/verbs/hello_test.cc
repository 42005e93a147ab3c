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

PortHello example() {
  PortHello hello;
  hello.port.mtu = 3;
  hello.port.lid = 0x1234;
  hello.port.gid.raw[15] = 7;
  hello.slots = 16;
  hello.slot_bytes = 16384;
  hello.control = {0x123456, 0xabcdef};
  hello.data = {{1, 2}, {3, 4}};
  return hello;
}

TEST(VerbsHello, IsHeardAsItWasSaid) {
  const Sockets sockets;
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  ASSERT_TRUE(send_hello(sockets.ends[0], example(), deadline_ns).ok());
  const Result<PortHello> heard = receive_hello(sockets.ends[1], deadline_ns);
  ASSERT_TRUE(heard.ok()) << heard.status().message();
  EXPECT_EQ(heard.value().port.mtu, 3);
  EXPECT_EQ(heard.value().port.lid, 0x1234);
  EXPECT_EQ(heard.value().port.gid.raw[15], 7);
  EXPECT_EQ(heard.value().control.number, 0x123456u);
  EXPECT_EQ(heard.value().control.sequence, 0xabcdefu);
  ASSERT_EQ(heard.value().data.size(), 2u);
  EXPECT_EQ(heard.value().data[1].sequence, 4u);
}

TEST(VerbsHello, NonsenseIsRefused) {
  const std::function<void(PortHello&)> spoilers[] = {
      [](PortHello& hello) { hello.port.mtu = 0; },
      [](PortHello& hello) { hello.port.mtu = 6; },
      [](PortHello& hello) { hello.slots = 1; },
      [](PortHello& hello) { hello.slots = 1u << 20; },
      [](PortHello& hello) { hello.slot_bytes = ~0u; },
      [](PortHello& hello) { hello.control.number = ~0u; },
      [](PortHello& hello) { hello.data[1].sequence = 1u << 24; }};
  for (const auto& spoil : spoilers) {
    const Sockets sockets;
    const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
    PortHello hello = example();
    spoil(hello);
    ASSERT_TRUE(send_hello(sockets.ends[0], hello, deadline_ns).ok());
    EXPECT_EQ(receive_hello(sockets.ends[1], deadline_ns).status().code(), Code::kRemoteError);
  }
}

TEST(VerbsHello, AnotherProtocolIsRefused) {
  const Sockets sockets;
  const std::array<char, 48> noise{'G', 'E', 'T', ' '};
  ASSERT_EQ(write(sockets.ends[0], noise.data(), noise.size()), 48);
  const Result<PortHello> heard = receive_hello(sockets.ends[1], monotonic_ns() + kPatienceNs);
  EXPECT_EQ(heard.status().code(), Code::kRemoteError);
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
