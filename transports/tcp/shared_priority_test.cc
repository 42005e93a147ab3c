// Two communicators on one connection, one of which has high priority.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "src/transport/stream/frame.h"
#include "transports/tcp/link.h"

namespace tutti::transports::tcp {
namespace {

using transport::stream::FrameHeader;
using transport::stream::FrameType;
using transport::stream::kHeaderBytes;

constexpr uint64_t kLow = 1, kHigh = 2;
constexpr size_t kLowBytes = 8 << 20, kHighBytes = 64 << 10;

/// One end: a connection with a link of each communicator.
struct End {
  explicit End(int rank) {
    const auto member = [](int of) { return MemberId{{1, 1}, static_cast<uint32_t>(of)}; };
    connection = std::make_shared<Connection>(member(rank), member(1 - rank));
    for (const uint64_t communicator : {kLow, kHigh}) {
      auto& link = communicator == kLow ? low : high;
      link = std::make_unique<TcpLink>(TcpLink::Party{rank, 1 - rank, "there", communicator, 0, {}},
                                       connection);
    }
  }
  std::shared_ptr<Connection> connection;
  std::unique_ptr<TcpLink> low, high;
};

class SharedPriority : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    reader_ = fds[1];
    sender.connection->adopt(*sender.low, KeptFd(Fd(fds[0])), {});
    receiver.connection->adopt(*receiver.low, KeptFd(Fd(fds[1])), {});
    sender.high->want();
    const auto is_joined = [](const End& end) {
      return end.high->state() == transport::Link::State::kConnected;
    };
    while (!is_joined(sender) || !is_joined(receiver)) settle();
    // Credit for all that will be sent.
    const transport::Buffer low{low_target.data(), kLowBytes}, high{high_target.data(), kHighBytes};
    receiver.low->receive({kLow, 0, 0}, 7, {&low, 1});
    receiver.high->receive({kHigh, 0, 0}, 7, {&high, 1});
    for (int turn = 0; turn < 10; ++turn) settle();
  }
  void settle() {
    for (End* end : {&sender, &receiver}) {
      end->low->progress();
      end->high->progress();
    }
  }

  std::vector<std::byte> low_source = std::vector<std::byte>(kLowBytes);
  std::vector<std::byte> low_target = std::vector<std::byte>(kLowBytes);
  std::vector<std::byte> high_source = std::vector<std::byte>(kHighBytes);
  std::vector<std::byte> high_target = std::vector<std::byte>(kHighBytes);
  End sender{0}, receiver{1};
  int reader_ = -1;
};

// All bytes of the connection from now on are read here, and its frames counted.
TEST_F(SharedPriority, AFrameOfHighPriorityWaitsForAtMostTheFrameThatHasBegun) {
  const transport::ConstBuffer low{low_source.data(), kLowBytes};
  const transport::ConstBuffer high{high_source.data(), kHighBytes};
  sender.low->send({kLow, 0, 0}, 7, {&low, 1});
  sender.low->progress();
  int waiting = 0;
  ASSERT_EQ(ioctl(reader_, FIONREAD, &waiting), 0);
  const auto written = static_cast<size_t>(waiting);
  ASSERT_LT(written, kLowBytes) << "the socket holds it all";
  sender.high->prioritize({kHigh, 0}, transport::Priority::kHigh);
  sender.high->send({kHigh, 0, 0}, 7, {&high, 1});
  std::vector<std::byte> bytes;
  size_t at = 0;
  int behind = 0;  // frames of low priority that began later
  for (bool found = false; !found;) {
    std::vector<std::byte> chunk(1 << 20);
    const ssize_t count = recv(reader_, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count > 0) bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
    sender.low->progress();
    while (!found && bytes.size() >= at + transport::door::kLeaseFrameBytes) {
      if (transport::door::is_lease_frame({bytes.data() + at, kHeaderBytes})) {
        at += transport::door::kLeaseFrameBytes;
        continue;
      }
      FrameHeader header;
      ASSERT_EQ(transport::stream::decode(bytes.data() + at, header), nullptr);
      found = header.type == FrameType::kData && header.channel.communicator == kHigh;
      behind += !found && at >= written ? 1 : 0;
      at += kHeaderBytes + header.length;
    }
  }
  EXPECT_EQ(behind, 0);
}

}  // namespace
}  // namespace tutti::transports::tcp
