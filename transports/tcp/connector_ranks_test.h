// Ranks that have nothing but a connector, and messages of one number between them.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/nap.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/link.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

using State = transport::Link::State;

inline constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;
inline constexpr uint64_t kKeepaliveNs = kNanosecondsPerSecond;
inline constexpr uint64_t kCommunicator = 5;
inline constexpr transport::ChannelId kData{kCommunicator, 0, 0};
inline constexpr transport::ChannelId kNotes{kCommunicator, 0, 77};

/// One rank: its connector and its links.
class Rank {
 public:
  Rank(int rank, int ranks, uint64_t give_way_ns = 0) {
    member_.rank = rank;
    member_.ranks = ranks;
    member_.communicator = kCommunicator;
    member_.host_id = "host" + std::to_string(rank);
    member_.bind_address = "127.0.0.1";
    auto made = Connector::create(kKeepaliveNs, give_way_ns);
    EXPECT_TRUE(made.ok());
    connector_ = std::move(made).value();
    seat_ = connector_->enter(member_).value();
    links_.resize(static_cast<size_t>(ranks));
  }
  ~Rank() {
    stop();
    links_.clear();
    connector_->leave(*seat_);
  }

  void meet(const Rank& other) { meet(other.member_.rank, Connector::card_of(*other.seat_)); }
  void meet(int peer, const TcpCard& card) {
    links_[static_cast<size_t>(peer)] = connector_->add(*seat_, peer, card);
  }
  TcpLink& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
  void end(int peer) { links_[static_cast<size_t>(peer)].reset(); }

  /// Once, if there is something to do within a moment.
  bool serve(int wait_ms = 20) {
    pollfd entry{connector_->service_fd(), POLLIN, 0};
    if (poll(&entry, 1, wait_ms) <= 0) return false;
    connector_->serve();
    return true;
  }
  void start() {
    server_ = std::thread([this] {
      while (!stop_.load()) serve(1);
    });
  }
  void stop() {
    stop_.store(true);
    if (server_.joinable()) server_.join();
  }

 private:
  transport::Member member_;
  std::unique_ptr<Connector> connector_;
  Connector::Seat* seat_ = nullptr;
  std::vector<std::unique_ptr<TcpLink>> links_;
  std::atomic<bool> stop_{false};
  std::thread server_;
};

/// Two ranks that have each other's cards.
struct Two {
  explicit Two(uint64_t give_way_ns = 0) : low(0, 2, give_way_ns), high(1, 2, give_way_ns) {
    low.meet(high);
    high.meet(low);
  }
  ~Two() {
    low.stop();
    high.stop();
  }
  void start() {
    low.start();
    high.start();
  }
  /// Both, until nothing is left to do.
  void settle() {
    while (low.serve() || high.serve()) {
    }
  }
  void expect_states(State low_state, State high_state) {
    EXPECT_EQ(low.link(1).state(), low_state);
    EXPECT_EQ(high.link(0).state(), high_state);
  }
  /// The two ends are of one connection.
  void expect_joined() {
    expect_states(State::kConnected, State::kConnected);
    sockaddr_in here{}, there{};
    socklen_t bytes = sizeof here;
    ASSERT_EQ(getsockname(low.link(1).descriptor(), reinterpret_cast<sockaddr*>(&here), &bytes), 0);
    bytes = sizeof there;
    ASSERT_EQ(getpeername(high.link(0).descriptor(), reinterpret_cast<sockaddr*>(&there), &bytes),
              0);
    EXPECT_EQ(here.sin_port, there.sin_port);
  }

  Rank low, high;
};

inline transport::Stream::Ticket send(TcpLink& link, const int& value) {
  const transport::ConstBuffer piece{reinterpret_cast<const std::byte*>(&value), sizeof value};
  return link.send(kData, 3, {&piece, 1});
}

inline transport::Stream::Ticket receive(TcpLink& link, int& value) {
  const transport::Buffer piece{reinterpret_cast<std::byte*>(&value), sizeof value};
  return link.receive(kData, 3, {&piece, 1});
}

inline bool arrives(TcpLink& link, transport::Stream::Ticket ticket) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!link.received(ticket) && link.status().ok() && monotonic_ns() < deadline_ns) {
    if (!link.progress()) testing_support::nap(link);
  }
  return link.received(ticket);
}

inline bool drains(TcpLink& link, transport::Stream::Ticket ticket) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!link.sent(ticket) && link.status().ok() && monotonic_ns() < deadline_ns) {
    if (!link.progress()) testing_support::nap(link);
  }
  return link.sent(ticket);
}

}  // namespace tutti::transports::tcp
