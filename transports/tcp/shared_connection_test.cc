// Two processes whose members meet in several communicators: one connection carries all of them,
// and what ends or fails in one is nothing to the others.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/transport/stream/frame.h"
#include "tests/support/nap.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using State = transport::Link::State;
using transport::ChannelId;
using transport::door::LeaseFrame;
using transport::door::LeaseWord;

constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;
constexpr uint64_t kA = 0xa, kB = 0xb;

transport::JobKey key_of(uint64_t communicator) {
  transport::JobKey key{};
  key.fill(static_cast<uint8_t>(communicator));
  return key;
}

/// One member of two, in a process of its own.
class Process {
 public:
  explicit Process(int number) : number_(number) {
    connector_ = Connector::create(kNoDeadline, 0).value();
  }
  ~Process() {
    stop();
    while (!places_.empty()) end(places_.begin()->first);
  }

  /// This member is one of a communicator's two. Its rank need not be the same in all.
  void enter(uint64_t communicator, bool swapped = false) {
    const std::lock_guard lock(mutex_);
    Place& place = places_[communicator];
    place.member = std::make_unique<transport::Member>();
    transport::Member& member = *place.member;
    member.rank = swapped ? 1 - number_ : number_;
    member.ranks = 2;
    member.communicator = communicator;
    member.key = key_of(communicator);
    member.host_id = "host";
    member.bind_address = "127.0.0.1";
    member.members = {{{0, 0}, 7}, {{0, 1}, 7}};
    if (swapped) std::swap(member.members[0], member.members[1]);
    place.seat = connector_->enter(member).value();
  }
  void meet(uint64_t communicator, const Process& other) {
    Place& place = place_of(communicator);
    const TcpCard card = Connector::card_of(*other.place_of(communicator).seat);
    place.link = connector_->add(*place.seat, 1 - place.member->rank, card);
  }
  void end_link(uint64_t communicator) { place_of(communicator).link.reset(); }
  void end(uint64_t communicator) {
    Place& place = place_of(communicator);
    connector_->be_quiet(*place.seat);
    place.link.reset();
    connector_->leave(*place.seat);
    const std::lock_guard lock(mutex_);
    places_.erase(communicator);
  }
  TcpLink& link(uint64_t communicator) { return *place_of(communicator).link; }
  const transport::Member& member(uint64_t communicator) { return *place_of(communicator).member; }
  TcpCard card(uint64_t communicator) { return Connector::card_of(*place_of(communicator).seat); }

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
  struct Place {
    std::unique_ptr<transport::Member> member;
    Connector::Seat* seat = nullptr;
    std::unique_ptr<TcpLink> link;
  };
  Place& place_of(uint64_t communicator) {
    const std::lock_guard lock(mutex_);
    return places_.at(communicator);
  }
  const Place& place_of(uint64_t communicator) const {
    const std::lock_guard lock(mutex_);
    return places_.at(communicator);
  }

  const int number_;
  std::unique_ptr<Connector> connector_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Place> places_;  // under mutex_: the map; each place belongs to one thread
  std::atomic<bool> stop_{false};
  std::thread server_;
};

struct Pair {
  Pair() {
    for (const uint64_t communicator : {kA, kB}) {
      for (Process* one : {&low, &high}) one->enter(communicator, communicator == kB);
      low.meet(communicator, high);
      high.meet(communicator, low);
    }
  }
  ~Pair() {
    low.stop();
    high.stop();
  }
  void start() {
    low.start();
    high.start();
  }
  Process low{0}, high{1};
};

ChannelId data_of(uint64_t communicator) { return {communicator, 0, 0}; }

/// Sends a number from one to the other; false: it did not come.
bool passes(TcpLink& from, TcpLink& to, int value) {
  int received = 0;
  const transport::ConstBuffer source{reinterpret_cast<const std::byte*>(&value), sizeof value};
  const transport::Buffer target{reinterpret_cast<std::byte*>(&received), sizeof received};
  const auto out = from.send(data_of(from.communicator()), 3, {&source, 1});
  const auto in = to.receive(data_of(to.communicator()), 3, {&target, 1});
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!(to.received(in) && from.sent(out)) && monotonic_ns() < deadline_ns) {
    if (!from.status().ok() || !to.status().ok()) break;
    const bool moved = from.progress();
    if (!to.progress() && !moved) testing_support::nap(to);
  }
  return received == value;
}

TEST(SharedConnection, OneCarriesAllCommunicatorsOfTwoMembers) {
  Pair pair;
  pair.start();
  EXPECT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  EXPECT_TRUE(passes(pair.high.link(kB), pair.low.link(kB), 2));
  EXPECT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 3));
  EXPECT_EQ(pair.low.link(kA).descriptor(), pair.low.link(kB).descriptor());
  EXPECT_EQ(pair.high.link(kA).descriptor(), pair.high.link(kB).descriptor());
}

TEST(SharedConnection, AnIdleLinkIsJoinedWhenItIsUsed) {
  Pair pair;
  pair.start();
  EXPECT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  EXPECT_EQ(pair.low.link(kB).state(), State::kIdle);
  EXPECT_EQ(pair.high.link(kB).state(), State::kIdle);
  pair.low.link(kB).want();
  EXPECT_EQ(pair.low.link(kB).state(), State::kWanted);
  while (pair.high.link(kA).progress() || pair.high.link(kB).state() == State::kIdle) {
  }
  EXPECT_TRUE(pair.low.link(kB).await(monotonic_ns() + kPatienceNs).ok());
}

// Of each communicator in turn: the other one's connection stays, and is the same one.
TEST(SharedConnection, ALinkThatEndsLeavesTheOtherItsConnection) {
  for (const auto& [ends, stays] : {std::pair(kA, kB), std::pair(kB, kA)}) {
    Pair pair;
    pair.start();
    ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
    ASSERT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 2));
    const int before = pair.low.link(stays).descriptor();
    int told = 0;
    pair.high.link(ends).on_failed([&] { ++told; });
    pair.low.end(ends);
    while (pair.high.link(ends).status().ok()) pair.high.link(stays).progress();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(pair.high.link(ends).status().code(), Code::kRemoteError);
    EXPECT_TRUE(passes(pair.high.link(stays), pair.low.link(stays), 3));
    EXPECT_EQ(pair.low.link(stays).descriptor(), before);
  }
}

TEST(SharedConnection, AMismatchOfOneIsNoneOfTheOther) {
  Pair pair;
  pair.start();
  ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  ASSERT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 2));
  const int value = 4;
  std::array<std::byte, 100> larger{};
  const transport::ConstBuffer source{reinterpret_cast<const std::byte*>(&value), sizeof value};
  const transport::Buffer target{larger.data(), larger.size()};
  pair.low.link(kA).send(data_of(kA), 3, {&source, 1});
  pair.high.link(kA).receive(data_of(kA), 3, {&target, 1});
  const auto differs = [](const TcpLink& link) {
    return link.epoch_status({kA, 0}).code() == Code::kInvalidUsage;
  };
  while (!differs(pair.low.link(kA)) || !differs(pair.high.link(kA))) {
    pair.low.link(kB).progress();
    pair.high.link(kB).progress();
  }
  EXPECT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 5));
}

// The one hangs up in the middle of a large message, in either direction; its memory is its own
// again, and the other one's bytes are all right.
TEST(SharedConnection, OneThatHangsUpInTheMiddleOfAMessageDisturbsNobody) {
  constexpr size_t kBytes = 32 << 20;  // more than sockets hold
  for (const bool sender_ends : {true, false}) {
    Pair pair;
    pair.start();
    ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
    ASSERT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 2));
    std::vector<std::byte> sent(kBytes, std::byte{1}), received(kBytes);
    const transport::ConstBuffer source{sent.data(), sent.size()};
    const transport::Buffer target{received.data(), received.size()};
    pair.high.link(kA).receive(data_of(kA), 7, {&target, 1});
    const auto ticket = pair.low.link(kA).send(data_of(kA), 7, {&source, 1});
    for (int turn = 0; turn < 100; ++turn) pair.low.link(kA).progress();
    ASSERT_FALSE(pair.low.link(kA).sent(ticket));
    TcpLink& ends = sender_ends ? pair.low.link(kA) : pair.high.link(kA);
    ends.hang_up();
    (sender_ends ? sent : received).assign(kBytes, std::byte{9});
    for (int value = 3; value < 10; ++value) {
      ASSERT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), value));
      ASSERT_TRUE(passes(pair.high.link(kB), pair.low.link(kB), value));
    }
    if (sender_ends) {
      for (const std::byte byte : received) ASSERT_NE(byte, std::byte{9});
    } else {
      EXPECT_EQ(received, std::vector<std::byte>(kBytes, std::byte{9}));
    }
  }
}

TEST(SharedConnection, NotesOfOneThatGaveUpBeforeItWasJoinedArrive) {
  Pair pair;
  pair.start();
  ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  const ChannelId notes{kB, 0, 77};
  const transport::Note note{{7, 0}, {8, 9}};
  pair.high.link(kB).tell(notes, note);
  EXPECT_TRUE(pair.high.link(kB).hang_up());
  pair.low.link(kB).want();
  while (pair.low.link(kB).status().ok()) {
    pair.low.link(kA).progress();
    pair.high.link(kA).progress();
  }
  transport::Note heard;
  EXPECT_EQ(pair.low.link(kB).heard(notes, heard), 1u);
  EXPECT_EQ(heard, note);
}

// ---- communicators that come and go
// ---------------------------------------------------------------

TEST(SharedConnection, AProofForACommunicatorThatIsBeingMadeWaits) {
  constexpr uint64_t kFirst = 100;
  constexpr uint64_t kMany = Connection::kMostKeptProofs + 36;  // more than are kept
  Pair pair;
  pair.start();
  ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  for (uint64_t one = kFirst; one < kFirst + kMany; ++one) {
    pair.low.enter(one);
    pair.high.enter(one);
    pair.low.meet(one, pair.high);
    pair.low.link(one).want();
  }
  ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 2));  // all proofs have been read
  for (uint64_t one = kFirst; one < kFirst + kMany; ++one) {
    EXPECT_EQ(pair.low.link(one).state(), State::kWanted);
    pair.high.meet(one, pair.low);
  }
  for (uint64_t one = kFirst; one < kFirst + kMany; ++one) {
    ASSERT_TRUE(passes(pair.low.link(one), pair.high.link(one), 3)) << one;
  }
}

TEST(SharedConnection, AProofForACommunicatorThatIsOverIsRefused) {
  Pair pair;
  pair.start();
  ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
  pair.high.end(kB);
  pair.low.link(kB).want();
  while (pair.low.link(kB).state() == State::kWanted) {
    pair.low.link(kA).progress();
    pair.high.link(kA).progress();
  }
  EXPECT_EQ(pair.low.link(kB).status().code(), Code::kRemoteError);
  EXPECT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 2));
}

// A thread on each side, a thousand times, each for another communicator.
TEST(SharedConnection, CallsThatCrossForTwoCommunicatorsEndAsOneConnection) {
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    Pair pair;
    pair.start();
    std::atomic<int> ready{0};
    const auto want = [&](TcpLink& link) {
      ready.fetch_add(1);
      while (ready.load() < 2) {
      }
      link.want();
    };
    std::thread low([&] { want(pair.low.link(kA)); });
    want(pair.high.link(kB));
    low.join();
    ASSERT_TRUE(passes(pair.low.link(kA), pair.high.link(kA), 1));
    ASSERT_TRUE(passes(pair.low.link(kB), pair.high.link(kB), 2));
    EXPECT_EQ(pair.low.link(kA).descriptor(), pair.low.link(kB).descriptor());
  }
}

// Each thread makes communicators of its own, uses and ends them, while others do: so last links
// end while first ones are taken, in every order.
TEST(SharedConnection, CommunicatorsComeAndGoInManyThreads) {
  constexpr uint64_t kThreads = 4;
  constexpr int kRounds = 60;
  Process low(0), high(1);
  low.start();
  high.start();
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
        const uint64_t own = 1000 * (thread + 1) + static_cast<uint64_t>(round);
        const bool swapped = random() % 2 == 0;
        low.enter(own, swapped);
        high.enter(own, swapped);
        low.meet(own, high);
        high.meet(own, low);
        const auto calls = static_cast<int>(random() % 4);
        for (int call = 1; call <= calls; ++call) {
          const bool up = random() % 2 == 0;
          TcpLink& from = up ? low.link(own) : high.link(own);
          TcpLink& to = up ? high.link(own) : low.link(own);
          ASSERT_TRUE(passes(from, to, call)) << from.status().message() << to.status().message();
        }
        const bool low_first = random() % 2 == 0;
        (low_first ? low : high).end(own);
        (low_first ? high : low).end(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- strangers to one of the communicators
// --------------------------------------------------------

/// A member of A, with its own idea of what may be said on the connection.
class Liar {
 public:
  explicit Liar(Process& victim) : victim_(victim) {
    socket_ = dial(victim.card(kA).endpoint).value();
    transport::door::Identity self;
    self.rank = 1 - victim.member(kA).rank;
    self.peer = victim.member(kA).rank;
    self.communicator = kA;
    self.purpose = transport::door::purpose_of("tcp");
    const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
    EXPECT_TRUE(wait_ready(socket_.get(), POLLOUT, deadline_ns));
    const transport::JobKey key = key_of(kA);
    transport::door::Introduction introduction(socket_.get(), key, self);
    Result<bool> done = false;
    while ((done = introduction.advance()).ok() && !done.value()) victim.serve(1);
    EXPECT_TRUE(done.ok()) << done.status().message();
    binding_ = introduction.binding();
    char answer = 0;
    while (recv(socket_.get(), &answer, 1, MSG_DONTWAIT) != 1) victim.serve(1);
    EXPECT_EQ(answer, static_cast<char>(transport::door::CallAnswer::kTaken));
  }

  void say(std::span<const std::byte> bytes) {
    ASSERT_TRUE(
        send_all(socket_.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 0)
            .ok());
  }
  /// A message of four bytes, as if the communicator were this connection's.
  void send_message(uint64_t communicator) {
    LeaseFrame use;
    use.word = LeaseWord::kUse;
    use.communicator = communicator;
    say(transport::door::encode(use));
    std::array<std::byte, transport::stream::kHeaderBytes + 4> bytes{};
    transport::stream::FrameHeader header;
    header.length = 4;
    header.channel = data_of(communicator);
    header.signature = 3;
    header.message_bytes = 4;
    transport::stream::encode(header, bytes.data());
    bytes.back() = std::byte{1};
    say(bytes);
  }
  void prove(uint64_t communicator, const transport::JobKey& key) {
    const transport::Member& member = victim_.member(communicator);
    const auto at = static_cast<size_t>(member.rank);
    LeaseFrame frame;
    frame.communicator = communicator;
    frame.proof = transport::door::prove(
        key, {binding_, member.members[1 - at], member.members[at], communicator, 0});
    say(transport::door::encode(frame));
  }

 private:
  Process& victim_;
  KeptFd socket_;
  transport::door::Binding binding_{};
};

/// Whether the victim takes a message of B for its own.
bool delivers(Process& victim, const std::function<void(Liar&)>& lie) {
  Liar liar(victim);
  int received = 0;
  const transport::Buffer target{reinterpret_cast<std::byte*>(&received), sizeof received};
  const auto ticket = victim.link(kB).receive(data_of(kB), 3, {&target, 1});
  lie(liar);
  liar.send_message(kB);
  liar.send_message(kA);  // behind it
  int own = 0;
  const transport::Buffer own_target{reinterpret_cast<std::byte*>(&own), sizeof own};
  const auto last = victim.link(kA).receive(data_of(kA), 3, {&own_target, 1});
  while (!victim.link(kA).received(last) && victim.link(kA).status().ok()) {
    victim.link(kA).progress();
  }
  return victim.link(kB).received(ticket) || received != 0;
}

TEST(SharedConnection, WhoKnowsOneKeyGetsNoByteIntoAnotherCommunicator) {
  const auto victim = [] {
    auto made = std::make_unique<Process>(0);
    Process other(1);
    for (const uint64_t communicator : {kA, kB}) {
      made->enter(communicator);
      other.enter(communicator);
      made->meet(communicator, other);
    }
    return made;
  };
  const transport::JobKey wrong = key_of(kA);
  EXPECT_FALSE(delivers(*victim(), [](Liar&) {}));
  EXPECT_FALSE(delivers(*victim(), [&](Liar& liar) { liar.prove(kB, wrong); }));
  // With the key it is a member, so the test sees what it looks for.
  EXPECT_TRUE(delivers(*victim(), [](Liar& liar) { liar.prove(kB, key_of(kB)); }));
}

TEST(SharedConnection, AWrongProofEndsTheConnectionThatItCameBy) {
  Process victim(0), other(1);
  for (const uint64_t communicator : {kA, kB}) {
    victim.enter(communicator);
    other.enter(communicator);
    victim.meet(communicator, other);
  }
  Liar liar(victim);
  liar.prove(kB, key_of(kA));
  while (victim.link(kA).status().ok()) victim.link(kA).progress();
  EXPECT_EQ(victim.link(kA).status().code(), Code::kRemoteError);
  EXPECT_TRUE(victim.link(kB).status().ok());
  EXPECT_EQ(victim.link(kB).state(), State::kIdle);
}

}  // namespace
}  // namespace tutti::transports::tcp
