// Ranks that are connected with few others find the one to blame: a network of notes without
// sockets.
#include "src/diagnosis/stall.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/diagnosis/stall_network_test.h"

namespace tutti::diagnosis {
namespace {

constexpr uint64_t kDeadlineNs = 700'000'000;
constexpr uint32_t kNumber = 1;  // of the call that all are in, unless it is said
// Numbers of calls begin anew behind their last.
constexpr uint32_t kNumbers[] = {kNumber, 0x7fffffff, 0xfffffffc, 0xfffffffe, 0xffffffff, 0};

/// The words of a rank, which lie in its arena otherwise.
class OwnWords {
 public:
  RankWords words() {
    return {&call, &failed_, &waiting_, &awake_ns_, &lost_, recent_.data(), log_.data()};
  }

  std::atomic<uint64_t> call{0};

 private:
  std::atomic<uint64_t> failed_{0}, waiting_{0}, awake_ns_{0}, lost_{0};
  std::vector<std::atomic<uint64_t>> recent_ = std::vector<std::atomic<uint64_t>>(kRecentCalls);
  std::vector<CallLog::Run> log_ = std::vector<CallLog::Run>(CallLog::kRuns);
};

class Reports final : public Health {
 public:
  Status check() override { return {}; }
  void report(const std::string& text) override { texts.push_back(text); }

  std::vector<std::string> texts;
};

/// A rank of a group of as many hosts.
class Rank {
 public:
  Rank(Network& network, int rank, int ranks, uint64_t slow_ns = kNoDeadline) : rank_(rank) {
    StallOptions options;
    options.rank = rank;
    options.slow_ns = slow_ns;
    std::vector<Contact> contacts(static_cast<size_t>(ranks));
    for (int peer = 0; peer < ranks; ++peer) {
      Contact& how = contacts[static_cast<size_t>(peer)];
      if (peer == rank) {
        how.words = own_.words();
        continue;
      }
      links_.push_back(std::make_unique<FakeLink>(network, rank, peer));
      how.link = links_.back().get();
      how.stream = links_.back().get();
    }
    stall_ = std::make_unique<Stall>(options, std::move(contacts), reports_);
  }

  void enter(uint32_t number = kNumber, uint32_t far_signature = 0) {
    number_ = number;
    own_.call.store(uint64_t{number} << 32 | LongWait().signature);
    stall_->entered(number, far_signature);
  }
  Status wait_for(int peer, uint64_t deadline_ns = kNoDeadline) {
    return wait_in({.what = "all_reduce", .deadline_ns = deadline_ns}, peer);
  }
  /// A send has no number of its own: the last collective is what its wait comes with.
  Status wait_in_send(int peer, uint64_t deadline_ns) {
    return wait_in({.what = "send/recv", .signature = 0, .deadline_ns = deadline_ns}, peer);
  }
  Status wait_in(LongWait wait, int peer) {
    wait.number = number_;
    wait.peer = static_cast<uint32_t>(peer);
    return stall_->check(wait);
  }
  /// Until it ends with an error.
  Status wait_in_vain_for(int peer) {
    const uint64_t until_ns = monotonic_ns() + 10 * kNanosecondsPerSecond;
    Status status;
    while ((status = wait_for(peer)).ok() && monotonic_ns() < until_ns) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return status;
  }
  Stall& stall() { return *stall_; }
  FakeLink& link(int peer) { return *links_[static_cast<size_t>(peer < rank_ ? peer : peer - 1)]; }
  const std::vector<std::string>& reports() const { return reports_.texts; }

 private:
  OwnWords own_;
  std::vector<std::unique_ptr<FakeLink>> links_;
  Reports reports_;
  std::unique_ptr<Stall> stall_;
  const int rank_;
  uint32_t number_ = kNumber;
};

enum class Last { kStopped, kElsewhere, kWaitsForTheFirst };

/// Rank 0 waits for 1, 1 for 2 and so on; who waits for whom is connected, and nobody else.
struct ChainShape {
  int ranks;
  Last last;
  uint64_t slow_ns = kNoDeadline;
  uint32_t number = kNumber;  // of the call they wait in
};

class Chain {
 public:
  explicit Chain(const ChainShape& shape) : last_(shape.last) {
    const auto [ranks, last, slow_ns, number] = shape;
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(network, rank, ranks, slow_ns));
      if (rank > 0) network.connect(rank - 1, rank);
      const bool late = rank + 1 == ranks && last != Last::kWaitsForTheFirst;
      ranks_.back()->enter(late ? number - 1 : number);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank + 1 == ranks && last == Last::kStopped) break;
      network.control_threads[rank] = &ranks_[static_cast<size_t>(rank)]->stall();
    }
  }

  /// All wait until the first one has had enough.
  Status run(uint64_t deadline_ns, size_t reports) {
    const int ranks = static_cast<int>(ranks_.size());
    const uint64_t until_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
    uint64_t turn_ns = monotonic_ns();
    while (monotonic_ns() < until_ns && first().reports().size() < reports) {
      Status status = first().wait_for(1, deadline_ns);
      const uint64_t last_turn_ns = std::exchange(turn_ns, monotonic_ns());
      stood_still_ = stood_still_ || turn_ns - last_turn_ns > kStandstillNs;
      if (!status.ok()) return status;
      for (int rank = 1; rank < ranks; ++rank) {
        if (rank + 1 == ranks && last_ != Last::kWaitsForTheFirst) continue;
        EXPECT_TRUE(ranks_[static_cast<size_t>(rank)]->wait_for((rank + 1) % ranks).ok());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }
  Rank& first() { return *ranks_.front(); }
  Rank& second() { return *ranks_[1]; }
  /// Since one thread moves all of them, all were silent when it was not run: nobody is to blame.
  bool stood_still() const { return stood_still_; }

  Network network;

 private:
  // Far below what a rank may be silent for with these deadlines.
  static constexpr uint64_t kStandstillNs = 60'000'000;

  const Last last_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool stood_still_ = false;
};

/// A chain that was run all the time, and what became of its first rank's wait.
struct Outcome {
  std::unique_ptr<Chain> chain;
  Status status;
};

/// `deadline_ns` from now; 0: none, until so many reports.
Outcome run_chain(const ChainShape& shape, uint64_t deadline_ns, size_t reports = 1) {
  constexpr int kMostTries = 50;
  Outcome outcome;
  for (int i = 0; i < kMostTries; ++i) {
    outcome.chain = std::make_unique<Chain>(shape);
    outcome.status =
        outcome.chain->run(deadline_ns == 0 ? kNoDeadline : monotonic_ns() + deadline_ns, reports);
    if (!outcome.chain->stood_still()) break;
  }
  return outcome;
}

Outcome run_to_deadline(const ChainShape& shape) { return run_chain(shape, kDeadlineNs); }

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(Stall, AStoppedRankIsFoundByAskingWhoLeadsToIt) {
  for (const int ranks : {2, 3, 12}) {
    const auto [chain, status] = run_to_deadline({ranks, Last::kStopped});
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_EQ(chain->first().stall().cause().rank, ranks - 1) << status.message();
    const std::string heard = "nothing was heard of rank " + std::to_string(ranks - 1);
    EXPECT_TRUE(contains(status.message(), heard)) << status.message();
    EXPECT_TRUE(chain->network.connected(0, ranks - 1));
  }
}

TEST(Stall, ARankThatIsElsewhereSaysSo) {
  const auto [chain, status] = run_to_deadline({6, Last::kElsewhere});
  EXPECT_EQ(chain->first().stall().cause().rank, 5) << status.message();
  EXPECT_TRUE(contains(status.message(), "rank 5 never entered call 1: its last is call 0"))
      << status.message();
  EXPECT_TRUE(contains(status.message(), "ranks 0-4 wait for it")) << status.message();
}

TEST(Stall, TheCallBeforeTheFirstIsTheLast) {
  const auto [chain, status] = run_to_deadline({3, Last::kElsewhere, kNoDeadline, 0});
  EXPECT_TRUE(
      contains(status.message(), "rank 2 never entered call 0: its last is call 4294967295"))
      << status.message();
}

// Rank 1 heard it of others; rank 0 hands on what they saw, not whom it heard it of.
TEST(Stall, WhoseCallsDifferIsHandedOn) {
  Network network;
  Rank first(network, 0, 4), second(network, 1, 4);
  network.connect(0, 1);
  first.enter();
  second.enter();
  second.stall().leave(kNumber, {1, {3, 2}});
  const Status status = first.wait_in_vain_for(1);
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_EQ(first.stall().cause(), (Cause{3, 2}));
  EXPECT_EQ(
      status.message(),
      "rank 1 gave up because the calls of rank 3 and rank 2 differ; rank 0 cannot go on with "
      "all_reduce");
}

TEST(Stall, ACallThatAFarRankHasLeftIsCompared) {
  for (const uint32_t number : kNumbers) {
    Network network;
    Rank first(network, 0, 2), second(network, 1, 2);
    network.connect(0, 1);
    first.enter(number, 7);
    second.enter(number, 8);
    first.enter(number + 1, 9);
    second.stall().leave(number, {1, {0, -1}});
    const Status status = first.wait_in_vain_for(1);
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << number;
    EXPECT_EQ(first.stall().cause(), (Cause{1, 0}));
    const std::string begin = "call " + std::to_string(number) + " or one before it differs";
    EXPECT_TRUE(contains(status.message(), begin)) << status.message();
  }
}

// Links stay: they carry other groups, too.
TEST(Stall, WhoGivesUpEndsItsEpochAndALinkOnlyWhoseOtherEndHoldsOn) {
  Network network;
  Rank first(network, 0, 4);
  first.enter();
  first.link(2).holds_on = true;
  const std::string severed = first.stall().leave(kNumber, {0, {0, -1}});
  for (const int peer : {1, 2, 3}) {
    EXPECT_TRUE(first.link(peer).ended) << peer;
    EXPECT_EQ(first.link(peer).severed.empty(), peer != 2) << peer;
  }
  EXPECT_TRUE(contains(severed, "the connection to rank 2 ended")) << severed;
}

// A rank that is being called hears the last words once it is connected, and this one may end when
// it has told them.
TEST(Stall, WhoGivesUpWaitsForConnectionsThatAreBeingMade) {
  Network network;
  Rank first(network, 0, 3);
  first.enter();
  first.link(1).turns_until_connected = 3;
  EXPECT_EQ(first.stall().leave(kNumber, {0, {0, -1}}), "");
  EXPECT_EQ(first.link(1).state(), transport::Link::State::kConnected);
}

// A group waits for one peer, and the messages of another one do not match: that is known before
// the deadline would blame the first.
TEST(Stall, AMistakeIsToldWhoeverIsWaitedFor) {
  struct Case {
    Status failure;
    Cause cause;
  };
  for (const Case& c : {Case{Status::invalid_usage("rank 2 sent 4 bytes"), {2, 0}},
                        Case{Status::invalid_argument("this buffer is not there"), {0, -1}},
                        Case{Status::system_error("no memory is left"), {0, -1}}}) {
    Network network;
    Rank first(network, 0, 4);
    first.enter();
    FakeLink& link = first.link(2);
    (c.cause.calls_differ() ? link.mismatch : link.failure) = c.failure;
    const Status status = first.wait_in_vain_for(1);
    EXPECT_EQ(status.code(), c.failure.code());
    EXPECT_EQ(status.message(), c.failure.message());
    EXPECT_EQ(first.stall().cause(), c.cause);
  }
}

/// Two ranks of one host, as rank 0 sees them.
class NearRanks {
 public:
  NearRanks() {
    stall_ = std::make_unique<Stall>(
        StallOptions(), std::vector<Contact>{{ranks_[0].words()}, {ranks_[1].words()}}, reports_);
  }

  void enter(size_t rank, uint32_t number, uint32_t signature) {
    const uint64_t word = uint64_t{number} << 32 | signature;
    ranks_[rank].words().recent_call(number).store(word);
    ranks_[rank].call.store(word);
  }
  /// The finding of rank 0, which waits in this call.
  Status compare(uint32_t number, uint32_t signature) {
    return stall_->compare_calls(
        {.what = "all_reduce", .signature = signature, .number = number, .peer = 1}, 1);
  }
  /// The finding of rank 0 in a send, when its deadline has passed as that of rank 1 has, which
  /// blames it.
  Status blamed_by_who_gave_up() {
    ranks_[1].words().failed->store(Loss{1, {0, -1}}.word());
    return stall_->check({.what = "send/recv", .signature = 0, .deadline_ns = 1, .peer = 1});
  }

 private:
  std::array<OwnWords, 2> ranks_;
  Reports reports_;
  std::unique_ptr<Stall> stall_;
};

// Each was found by the other one to be to blame; the one that is later has nobody who waits.
TEST(Stall, WhoIsToBlameAndHasNobodyWaitingIsNotSaidToBeWaitedFor) {
  NearRanks ranks;
  const Status status = ranks.blamed_by_who_gave_up();
  EXPECT_EQ(status.code(), Code::kTimeout) << status.message();
  EXPECT_FALSE(contains(status.message(), "wait for it")) << status.message();
  EXPECT_TRUE(contains(status.message(), "rank 0")) << status.message();
}

TEST(Stall, CallsOfAHostAreComparedWhereverTheirNumbersAre) {
  for (const uint32_t number : kNumbers) {
    NearRanks same;
    for (uint32_t i = 0; i < 4; ++i) same.enter(0, number + i, 7 + i);
    EXPECT_TRUE(same.compare(number + 3, 10).ok()) << "it has not begun";
    for (uint32_t i = 0; i < 3; ++i) {
      same.enter(1, number + i, 7 + i);
      EXPECT_TRUE(same.compare(number + 3, 10).ok()) << "late, not wrong: " << number;
    }
    same.enter(1, number + 3, 10);
    EXPECT_TRUE(same.compare(number + 3, 10).ok()) << number;

    NearRanks other;
    for (uint32_t i = 0; i < 4; ++i) other.enter(0, number + i, 7 + i);
    const std::string begin = "call " + std::to_string(number + 1) + " differs between ranks: ";
    for (uint32_t i = 0; i < 6; ++i) {  // behind, where it may have given up; there; ahead
      other.enter(1, number + i, i == 0 ? 7 : 20 + i);
      const Status status = other.compare(number + 3, 10);
      EXPECT_EQ(status.ok(), i == 0) << number << " " << i;
      EXPECT_TRUE(status.ok() || status.message().starts_with(begin)) << status.message();
    }
  }
}

// The others wait for a moment, too short to tell it, just before they are asked.
TEST(Stall, AWaitThatEndedIsNotTold) {
  Network network;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Rank>(network, rank, 3));
    ranks.back()->enter();
    network.control_threads[rank] = &ranks.back()->stall();
  }
  network.connect(0, 1);
  const uint64_t start_ns = monotonic_ns();
  Status status;
  for (bool waited = false; status.ok();) {
    status = ranks[0]->wait_for(1, start_ns + kDeadlineNs);
    if (waited || monotonic_ns() < start_ns + kDeadlineNs / 3) continue;
    waited = true;
    for (const int rank : {1, 2}) {
      EXPECT_TRUE(ranks[static_cast<size_t>(rank)]->wait_for((rank + 1) % 3).ok());
      ranks[static_cast<size_t>(rank)]->stall().ended();
    }
  }
  EXPECT_EQ(ranks[0]->stall().cause().rank, 1) << status.message();
  EXPECT_FALSE(network.connected(0, 2)) << status.message();
}

TEST(Stall, ACircleIsSeenAsOne) {
  const auto [chain, status] = run_to_deadline({5, Last::kWaitsForTheFirst});
  EXPECT_TRUE(contains(status.message(), "ranks wait in a circle")) << status.message();
}

TEST(Stall, OnlyTheChainIsAsked) {
  const auto [chain, status] = run_to_deadline({6, Last::kStopped});
  EXPECT_FALSE(status.ok());
  for (int rank = 1; rank < 6; ++rank) EXPECT_TRUE(chain->network.connected(0, rank)) << rank;
  for (int a = 1; a < 6; ++a) {
    for (int b = a + 2; b < 6; ++b) EXPECT_FALSE(chain->network.connected(a, b)) << a << ", " << b;
  }
}

TEST(Stall, NobodyIsAskedBeforeAReportIsAtHand) {
  Chain chain({4, Last::kStopped});
  EXPECT_TRUE(chain.first().wait_for(1, monotonic_ns() + 3600 * kNanosecondsPerSecond).ok());
  EXPECT_FALSE(chain.network.connected(0, 2));
}

TEST(Stall, ASendDoesNotCountAsTheLastCollective) {
  for (const Last last : {Last::kElsewhere, Last::kWaitsForTheFirst}) {
    Chain chain({2, last});
    const uint64_t until_ns = monotonic_ns() + kDeadlineNs;
    Status status;
    while (status.ok()) {
      status = chain.first().wait_in_send(1, until_ns);
      if (last == Last::kWaitsForTheFirst) {
        EXPECT_TRUE(chain.second().wait_in_send(0, kNoDeadline).ok());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_TRUE(contains(status.message(), "send/recv on rank 0 passed")) << status.message();
    EXPECT_FALSE(contains(status.message(), "call 1")) << status.message();
  }
}

TEST(Stall, ReportsNameWhoIsToBlameAgainAndAgain) {
  constexpr uint64_t kSlowNs = 500'000'000;
  const auto [chain, status] = run_chain({4, Last::kElsewhere, kSlowNs}, 0, 2);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(chain->first().reports().size(), 2u);
  for (const std::string& text : chain->first().reports()) {
    EXPECT_TRUE(contains(text, ": rank 3 never entered call 1")) << text;
  }
}

}  // namespace
}  // namespace tutti::diagnosis
