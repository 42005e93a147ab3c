// Ranks connect in every order: two or more connectors over the loopback interface, served by hand
// where the order matters and by a thread of each where it should not.
#include <gtest/gtest.h>
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
#include "transports/tcp/connector_ranks_test.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

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
  const IpEndpoint place = local_endpoint(full.get()).value();
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
// tests/launch/slow_hosts_test.py.
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

}  // namespace
}  // namespace tutti::transports::tcp
