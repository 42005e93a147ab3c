// Who connects, in every order: two or more connectors over the loopback interface, served by hand
// where the order matters and by a thread of each where it should not.
#include "transports/tcp/connector.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/forked.h"
#include "tests/support/nap.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using State = transport::Link::State;

constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;
constexpr uint64_t kKeepaliveNs = kNanosecondsPerSecond;
constexpr transport::ChannelId kData{1, 0, 0};
constexpr transport::ChannelId kNotes{1, 0, 77};

/// One rank: its connector and its links.
class Rank {
 public:
  Rank(int rank, int ranks, uint64_t give_way_ns = 0) {
    member_.keepalive_ns = kKeepaliveNs;
    member_.rank = rank;
    member_.ranks = ranks;
    member_.communicator = 5;
    Result<KeptFd> listener = listen_on(parse_endpoint("127.0.0.1", 0).value());
    EXPECT_TRUE(listener.ok());
    card_ = {local_endpoint(listener.value().get()).value(), "host" + std::to_string(rank)};
    auto made = Connector::create(member_, card_, std::move(listener).value(), give_way_ns);
    EXPECT_TRUE(made.ok());
    connector_ = std::move(made).value();
    links_.resize(static_cast<size_t>(ranks));
  }
  ~Rank() { stop(); }

  void meet(const Rank& other) { meet(other.member_.rank, other.card_); }
  void meet(int peer, const Card& card) {
    auto& place = links_[static_cast<size_t>(peer)];
    place = std::make_unique<TcpLink>(member_.rank, peer, "there", connector_.get());
    connector_->add(*place, peer, card);
  }
  TcpLink& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
  void end(int peer) { links_[static_cast<size_t>(peer)].reset(); }

  /// Once, if there is something to do within a moment.
  bool serve(int wait_ms = 20) {
    pollfd entry{connector_->fd(), POLLIN, 0};
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
  Card card_;
  std::unique_ptr<Connector> connector_;
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

transport::Stream::Ticket send(TcpLink& link, const int& value) {
  const transport::ConstBuffer piece{reinterpret_cast<const std::byte*>(&value), sizeof value};
  return link.send(kData, 3, {&piece, 1});
}

transport::Stream::Ticket receive(TcpLink& link, int& value) {
  const transport::Buffer piece{reinterpret_cast<std::byte*>(&value), sizeof value};
  return link.receive(kData, 3, {&piece, 1});
}

bool arrives(TcpLink& link, transport::Stream::Ticket ticket) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!link.received(ticket) && link.status().ok() && monotonic_ns() < deadline_ns) {
    if (!link.progress()) testing_support::nap(link);
  }
  return link.received(ticket);
}

bool drains(TcpLink& link, transport::Stream::Ticket ticket) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!link.sent(ticket) && link.status().ok() && monotonic_ns() < deadline_ns) {
    if (!link.progress()) testing_support::nap(link);
  }
  return link.sent(ticket);
}

TEST(Connector, NothingConnectsThatNobodyUses) {
  Two two;
  two.low.link(1).tell(kNotes, {{1, 2}, {3, 4}});
  two.low.link(1).progress();
  two.settle();
  two.expect_states(State::kIdle, State::kIdle);
  EXPECT_EQ(two.low.link(1).descriptor(), -1);
  EXPECT_TRUE(two.low.link(1).status().ok());
}

TEST(Connector, TheFirstMessageOfEitherSideConnects) {
  for (const bool low_first : {true, false}) {
    Two two;
    two.start();
    TcpLink& sender = low_first ? two.low.link(1) : two.high.link(0);
    TcpLink& receiver = low_first ? two.high.link(0) : two.low.link(1);
    const int sent = 42;
    int received = 0;
    const auto out = send(sender, sent);
    ASSERT_TRUE(sender.await(monotonic_ns() + kPatienceNs).ok());
    // The receiver has done nothing yet: its end follows as soon as it has seen the call.
    const auto in = receive(receiver, received);
    std::thread drain([&] { EXPECT_TRUE(drains(sender, out)); });
    EXPECT_TRUE(arrives(receiver, in));
    drain.join();
    EXPECT_EQ(received, 42);
    two.expect_joined();
  }
}

// The peer is in no call and its program does nothing: its server alone answers.
TEST(Connector, ARankThatOnlyReceivesConnects) {
  for (const bool low_first : {true, false}) {
    Two two;
    two.start();
    TcpLink& receiver = low_first ? two.low.link(1) : two.high.link(0);
    TcpLink& passive = low_first ? two.high.link(0) : two.low.link(1);
    int received = 0;
    receive(receiver, received);
    ASSERT_TRUE(receiver.await(monotonic_ns() + kPatienceNs).ok());
    while (passive.state() == State::kIdle) std::this_thread::yield();
    two.expect_joined();
  }
}

TEST(Connector, NotesToldBeforeComeWithTheConnection) {
  Two two;
  const transport::Note note{{1, 2}, {3, 4}};
  two.low.link(1).tell(kNotes, note);
  two.high.link(0).want();
  two.settle();
  transport::Note heard;
  two.high.link(0).progress();
  EXPECT_EQ(two.high.link(0).heard(kNotes, heard), 1u);
  EXPECT_EQ(heard, note);
}

// ---- crossing -----------------------------------------------------------------------------------

TEST(Connector, TheLowerRanksCallWinsWhereBothCall) {
  Two two;
  two.low.link(1).want();
  two.high.link(0).want();
  while (two.high.serve()) {
  }  // its call waits at the lower rank's door
  two.settle();
  two.expect_joined();
}

// The higher rank has been declined, and the lower one ends before its own call came: nobody else
// would ever tell.
TEST(Connector, ADeclinedCallTellsThatTheOtherWentAway) {
  auto low = std::make_unique<Rank>(0, 2);
  Rank high(1, 2), elsewhere(1, 2);
  low->meet(elsewhere);  // which does not answer
  high.meet(*low);
  low->link(1).want();
  high.link(0).want();
  while (low->serve() || high.serve()) {
  }
  EXPECT_EQ(high.link(0).state(), State::kWanted);
  low.reset();
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (high.link(0).state() == State::kWanted && monotonic_ns() < deadline_ns) high.serve();
  EXPECT_EQ(high.link(0).state(), State::kFailed);
  EXPECT_NE(high.link(0).status().message().find("rank 0"), std::string_view::npos);
}

TEST(Connector, AFailedLinkSaysSoToWhoeverCalls) {
  Rank low(0, 2), high(1, 2);
  {
    const Rank elsewhere(1, 2);
    low.meet(elsewhere);
  }
  high.meet(low);
  low.link(1).want();
  while (low.link(1).state() != State::kFailed) low.serve();
  high.link(0).want();
  while (high.link(0).state() == State::kWanted) {
    low.serve(1);
    high.serve(1);
  }
  EXPECT_EQ(high.link(0).status().code(), Code::kRemoteError);
  EXPECT_NE(high.link(0).status().message().find("given up"), std::string_view::npos)
      << high.link(0).status().message();
}

// A thread on each side, a thousand times: one connection whatever the order, and what was queued
// before arrives on it.
TEST(Connector, CallsThatCrossEndAsOneConnection) {
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    Two two;
    two.start();
    std::atomic<int> ready{0};
    const auto use = [&](TcpLink& link, int value) {
      int received = 0;
      ready.fetch_add(1);
      while (ready.load() < 2) {
      }
      const auto out = send(link, value);
      const auto in = receive(link, received);
      EXPECT_TRUE(arrives(link, in)) << link.status().message();
      EXPECT_TRUE(drains(link, out)) << link.status().message();
      EXPECT_EQ(received, 3 - value);
    };
    std::thread low([&] { use(two.low.link(1), 1); });
    use(two.high.link(0), 2);
    low.join();
    two.expect_joined();
    // Ends at once, where nobody acknowledges what came last.
    two.low.link(1).hang_up();
    two.high.link(0).hang_up();
  }
}

TEST(Connector, WhoGivesWayConnectsAllTheSame) {
  Two two(50'000'000);
  two.high.link(0).want();
  EXPECT_FALSE(two.high.serve(0) && two.low.serve(0));
  two.start();
  EXPECT_TRUE(two.high.link(0).await(monotonic_ns() + kPatienceNs).ok());
}

// ---- peers that are late, stopped or gone -------------------------------------------------------

TEST(Connector, ACallBeforeThereIsALinkWaits) {
  Rank low(0, 2), high(1, 2);
  high.meet(low);
  high.link(0).want();
  while (high.serve() || low.serve()) {
  }
  EXPECT_EQ(high.link(0).state(), State::kWanted);
  low.meet(high);
  EXPECT_EQ(low.link(1).state(), State::kConnected);
  EXPECT_TRUE(high.serve());
  EXPECT_EQ(high.link(0).state(), State::kConnected);
}

TEST(Connector, ACallThatEndedBeforeThereIsALinkIsNone) {
  Rank low(0, 2), high(1, 2);
  high.meet(low);
  high.link(0).want();
  while (high.serve() || low.serve()) {
  }
  high.end(0);
  low.meet(high);
  EXPECT_EQ(low.link(1).state(), State::kIdle);
}

// As a stopped process: its kernel accepts, and nothing follows.
TEST(Connector, AStoppedPeerIsNoFailureAndDelaysNobody) {
  Rank low(0, 3), stopped(1, 3), other(2, 3);
  low.meet(stopped);
  low.meet(other);
  other.meet(low);
  low.link(1).want();
  low.start();
  other.start();
  const Status late = low.link(1).await(monotonic_ns() + 100'000'000);
  EXPECT_EQ(late.code(), Code::kTimeout) << late.message();
  EXPECT_EQ(low.link(1).state(), State::kWanted);
  EXPECT_TRUE(low.link(1).status().ok());
  EXPECT_TRUE(low.link(2).await(monotonic_ns() + kPatienceNs).ok());
  low.stop();
  other.stop();
}

// The lists of the kernel's sockets that have called somebody at this port and got no answer.
std::set<std::string> unanswered(uint16_t port) {
  constexpr const char* kSynSent = "02";
  char there[16];
  std::snprintf(there, sizeof there, ":%04X", port);
  std::set<std::string> callers;
  std::ifstream table("/proc/self/net/tcp");
  std::string line, number, local, remote, state;
  while (std::getline(table, line)) {
    std::istringstream(line) >> number >> local >> remote >> state;
    if (state == kSynSent && remote.ends_with(there)) callers.insert(local);
  }
  return callers;
}

// As behind a firewall that drops what comes: only the kernel can give such a call up, if it is
// the same one all the time.
TEST(Connector, CallsThatNoHostAnswersStayOutAndHoldNoPlace) {
  constexpr int kSilent = static_cast<int>(Connector::kMostCalls);
  const KeptFd full = listen_on(parse_endpoint("127.0.0.1", 0).value()).value();
  ASSERT_EQ(listen(full.get(), 0), 0);
  const Endpoint place = local_endpoint(full.get()).value();
  const KeptFd in_its_queue = dial(place).value();
  Rank caller(0, kSilent + 2), answers(kSilent + 1, kSilent + 2);
  for (int peer = 1; peer <= kSilent; ++peer) caller.meet(peer, {place, "behind a wall"});
  caller.meet(answers);
  answers.meet(caller);
  for (int peer = 1; peer <= kSilent + 1; ++peer) caller.link(peer).want();
  caller.start();
  answers.start();
  std::set<std::string> first;
  while ((first = unanswered(place.port())).size() < static_cast<size_t>(kSilent)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Status met = caller.link(kSilent + 1).await(monotonic_ns() + kPatienceNs);
  EXPECT_TRUE(met.ok()) << met.message();
  EXPECT_EQ(unanswered(place.port()), first);
  caller.stop();
  answers.stop();
}

// Its kernel takes no more and says so whenever it is asked. Hosts that say nothing are in
// tests/launch/hosts_test.py.
TEST(Connector, APeerThatReadsNothingIsNotTakenForGone) {
  constexpr size_t kMoreThanSocketsHold = 64 << 20;
  std::vector<std::byte> bytes(kMoreThanSocketsHold), landing(kMoreThanSocketsHold);
  const transport::ConstBuffer source{bytes.data(), bytes.size()};
  const transport::Buffer target{landing.data(), landing.size()};
  Two two;
  two.start();
  ASSERT_TRUE(two.low.link(1).await(monotonic_ns() + kPatienceNs).ok());
  const auto ticket = two.low.link(1).send(kData, 3, {&source, 1});
  two.high.link(0).receive(kData, 3, {&target, 1});  // grants credit for all of it
  const uint64_t end_ns = monotonic_ns() + 3 * kKeepaliveNs;
  while (monotonic_ns() < end_ns) {
    two.low.link(1).progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(two.low.link(1).sent(ticket)) << "the sockets hold more than this";
  EXPECT_TRUE(two.low.link(1).status().ok()) << two.low.link(1).status().message();
  EXPECT_TRUE(two.high.link(0).status().ok()) << two.high.link(0).status().message();
}

// More calls at one door than it holds.
TEST(Connector, ManyCallAtOnce) {
  constexpr int kCallers = 2 * static_cast<int>(Connector::kMostCalls);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank <= kCallers; ++rank) {
    ranks.push_back(std::make_unique<Rank>(rank, kCallers + 1));
  }
  Rank& called = *ranks[0];
  for (int rank = 1; rank <= kCallers; ++rank) {
    ranks[static_cast<size_t>(rank)]->meet(called);
    called.meet(*ranks[static_cast<size_t>(rank)]);
  }
  for (int rank = 1; rank <= kCallers; ++rank) {
    Rank& caller = *ranks[static_cast<size_t>(rank)];
    if (rank % 2 == 0) called.link(rank).want();
    caller.link(0).want();
    caller.start();
  }
  called.start();
  for (int rank = 1; rank <= kCallers; ++rank) {
    const Status status =
        ranks[static_cast<size_t>(rank)]->link(0).await(monotonic_ns() + kPatienceNs);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(called.link(rank).await(monotonic_ns() + kPatienceNs).ok());
  }
  for (const auto& rank : ranks) rank->stop();
}

// As long as a child held it, the peer would not learn of this rank's death.
TEST(Connector, WhatIsDialledIsInNoForkedChild) {
  const auto listener = listen_on(parse_endpoint("127.0.0.1", 0).value());
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(testing_support::a_child_has_socket(listener.value().get()));
  const auto call = dial(local_endpoint(listener.value().get()).value());
  ASSERT_TRUE(call.ok());
  EXPECT_FALSE(testing_support::a_child_has_socket(call.value().get()));
}

// ---- leaving ------------------------------------------------------------------------------------

TEST(Connector, WhoGaveUpBeforeItWasCalledSaysWhy) {
  Two two;
  const transport::Note note{{7, 0}, {8, 9}};
  two.high.link(0).tell(kNotes, note);
  EXPECT_TRUE(two.high.link(0).hang_up());  // nobody to wait for
  int received = 0;
  const auto in = receive(two.low.link(1), received);
  two.settle();
  EXPECT_FALSE(arrives(two.low.link(1), in));
  EXPECT_EQ(two.low.link(1).status().code(), Code::kRemoteError);
  transport::Note heard;
  EXPECT_EQ(two.low.link(1).heard(kNotes, heard), 1u);
  EXPECT_EQ(heard, note);
}

TEST(Connector, ALinkTellsOnceThatItHasADescriptor) {
  Two two;
  int told = 0;
  two.low.link(1).on_settled([&] {
    ++told;
    EXPECT_GE(two.low.link(1).descriptor(), 0);
  });
  two.settle();
  EXPECT_EQ(told, 0);
  two.high.link(0).want();
  two.settle();
  EXPECT_EQ(told, 1);
  two.low.link(1).on_settled([&] { ++told; });  // at once
  EXPECT_EQ(told, 2);
}

TEST(Connector, ALinkTellsThatItFailed) {
  Rank low(0, 2);
  {
    const Rank gone(1, 2);
    low.meet(gone);
  }
  int told = 0;
  low.link(1).on_settled([&] { ++told; });
  low.link(1).want();
  while (low.link(1).state() == State::kWanted) low.serve();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(low.link(1).state(), State::kFailed);
}

}  // namespace
}  // namespace tutti::transports::tcp
