// Claims about TCP alone; the duties of every transport are in tests/conformance.
#include "transports/tcp/tcp.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/watch.h"
#include "transports/tcp/card.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using transport::Link;
using transport::Member;
using transport::Transport;

Member member(int rank, const std::string& address) {
  Member result;
  result.rank = rank;
  result.ranks = 2;
  result.communicator = 5;
  result.host_id = "host" + std::to_string(rank);
  result.bind_address = address;
  return result;
}

/// Serves transports while it lives.
class Served {
 public:
  explicit Served(const std::vector<Transport*>& transports) {
    auto made = bootstrap::Watch::create();
    EXPECT_TRUE(made.ok());
    watch_ = std::move(made).value();
    for (Transport* transport : transports) {
      const auto serve = [transport] {
        transport->serve();
        return uint64_t{0};
      };
      EXPECT_TRUE(
          watch_->attend(transport->service_fd(), bootstrap::Watch::News::kInput, serve).ok());
    }
  }

 private:
  std::unique_ptr<bootstrap::Watch> watch_;
};

bool has_ipv6_loopback() {
  const auto endpoint = parse_endpoint("::1", 0);
  return endpoint.ok() && listen_on(endpoint.value()).ok();
}

void expect_messages_pass(const std::string& address) {
  const Member members[2] = {member(0, address), member(1, address)};
  std::unique_ptr<Transport> transports[2];
  for (int r = 0; r < 2; ++r) {
    auto made = make(members[r]);
    ASSERT_TRUE(made.ok()) << made.status().message();
    transports[r] = std::move(made).value();
  }
  EXPECT_NE(transports[0]->card().find(address), std::string::npos);
  std::unique_ptr<Link> links[2];
  for (int r = 0; r < 2; ++r) {
    auto link = transports[r]->connect(1 - r, transports[1 - r]->card(), kNoDeadline);
    ASSERT_TRUE(link.ok()) << link.status().message();
    links[r] = std::move(link).value();
  }
  const Served served({transports[0].get(), transports[1].get()});
  const std::byte source[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::byte target[3] = {};
  const transport::ConstBuffer source_piece{source, 3};
  const transport::Buffer target_piece{target, 3};
  links[0]->stream()->send({5, 0, 0}, 1, {&source_piece, 1});
  const auto ticket = links[1]->stream()->receive({5, 0, 0}, 1, {&target_piece, 1});
  while (!links[1]->stream()->received(ticket) && links[1]->status().ok()) {
    links[1]->stream()->progress();
  }
  EXPECT_TRUE(links[1]->status().ok()) << links[1]->status().message();
  EXPECT_EQ(target[2], std::byte{3});
}

TEST(Tcp, OverIPv4) { expect_messages_pass("127.0.0.1"); }

TEST(Tcp, OverIPv6) {
  if (!has_ipv6_loopback()) GTEST_SKIP() << "this machine has no ::1";
  expect_messages_pass("::1");
}

TEST(Tcp, AnAddressMustBeOneThatPeersCanReach) {
  for (const char* address : {"", "localhost", "0.0.0.0", "::", "300.1.1.1", "1.2.3.4:80"}) {
    const auto made = make(member(0, address));
    ASSERT_FALSE(made.ok()) << address;
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << made.status().message();
  }
}

TEST(Tcp, AnAddressOfAnotherHostCannotBeListenedOn) {
  const auto made = make(member(0, "192.0.2.1"));  // reserved for documentation
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kSystemError);
  EXPECT_NE(made.status().message().find("192.0.2.1"), std::string_view::npos);
}

TEST(Tcp, NobodyListeningIsSaidAtOnceWithTheAddress) {
  const Member zero = member(0, "127.0.0.1");
  auto transport = make(zero);
  ASSERT_TRUE(transport.ok());
  std::string card;
  {
    const Member one = member(1, "127.0.0.1");
    auto gone = make(one);
    ASSERT_TRUE(gone.ok());
    card = gone.value()->card();
  }
  const uint64_t start_ns = monotonic_ns();
  auto link = transport.value()->connect(1, card, kNoDeadline);
  ASSERT_TRUE(link.ok());
  const Served served({transport.value().get()});
  const Status status = link.value()->await(start_ns + 60 * kNanosecondsPerSecond);
  ASSERT_FALSE(status.ok());
  EXPECT_LT(monotonic_ns() - start_ns, 5 * kNanosecondsPerSecond);
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_EQ(link.value()->status().message(), status.message());
  for (const char* text : {"rank 0", "rank 1", "127.0.0.1:", "host1", "firewall"}) {
    EXPECT_NE(status.message().find(text), std::string_view::npos) << status.message();
  }
}

TEST(Tcp, CardsAreReadStrictly) {
  const Member zero = member(0, "127.0.0.1");
  auto made = make(zero);
  ASSERT_TRUE(made.ok());
  const Transport& transport = *made.value();
  EXPECT_TRUE(transport.reaches("tutti-tcp-2 10.0.0.1 4000 somewhere"));
  EXPECT_TRUE(transport.reaches("tutti-tcp-2 fe80::1 4000 a host with spaces"));
  for (const char* card :
       {"tutti-tcp-9 10.0.0.1 4000 h", "tutti-tcp-2 10.0.0.1 0 h", "tutti-tcp-2 10.0.0.1 65536 h",
        "tutti-tcp-2 10.0.0.1 40x h", "tutti-tcp-2 example.org 40 h", "tutti-tcp-2", ""}) {
    EXPECT_FALSE(transport.reaches(card)) << card;
  }
}

TEST(Tcp, ALongHostIdFitsTheCard) {
  Member zero = member(0, "127.0.0.1");
  zero.host_id = std::string(5000, 'h');
  auto made = make(zero);
  ASSERT_TRUE(made.ok());
  EXPECT_LE(made.value()->card().size(), Transport::kMaxCardBytes);
  EXPECT_TRUE(made.value()->reaches(made.value()->card()));
}

TEST(Tcp, ARankThatNobodyCallsTellsWhomItRefused) {
  const Member zero = member(0, "127.0.0.1"), one = member(1, "127.0.0.1");
  auto silent = make(zero);  // nobody serves it
  auto waiting = make(one);
  ASSERT_TRUE(silent.ok() && waiting.ok());
  const Served served({waiting.value().get()});
  auto link = waiting.value()->connect(0, silent.value()->card(), kNoDeadline);
  ASSERT_TRUE(link.ok());
  const auto stranger = dial(TcpCard::read(waiting.value()->card())->endpoint);
  ASSERT_TRUE(stranger.ok());
  const uint64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  ASSERT_TRUE(wait_ready(stranger.value().get(), POLLOUT, end_ns));
  const std::string words(200, 'x');
  ASSERT_TRUE(send_all(stranger.value().get(), words.data(), words.size(), end_ns).ok());
  const auto tells = [](const Status& status) {
    return status.message().find("protocol") != std::string_view::npos;
  };
  Status status;  // of a wait, which may end before the stranger has been refused
  while (!tells(status) && monotonic_ns() < end_ns) {
    status = link.value()->await(monotonic_ns() + 200'000'000);
    ASSERT_EQ(status.code(), Code::kTimeout) << status.message();
  }
  EXPECT_TRUE(tells(status)) << status.message();
  EXPECT_EQ(link.value()->state(), Link::State::kWanted);  // late is not broken
}

}  // namespace
}  // namespace tutti::transports::tcp
