// Queue pairs and ports that fail while messages are on their way: the others bring them over, each
// byte and each frame once, until none is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"
#include "transports/verbs/functions.h"

namespace tutti::software_verbs {
namespace {

namespace api = transports::verbs::api;
using conformance::Crew;
using conformance::drive;
using conformance::pattern;
using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;

constexpr ChannelId kChannel{conformance::kCommunicator, 1, 0};
constexpr registry::TransportEntry kOneCard{"verbs", &make}, kTwoCards{"verbs", &make_with_four};
constexpr int kAnyError = 9;  // of this pair alone
constexpr size_t kBytes = 3 << 20;
constexpr size_t kSmall = 200;  // messages, as frames
// Of a large message each way: some of it leaves as frames before the peer says where it may lie.
constexpr size_t kMostOfIt = kBytes / 2;

// As hosts have them: those of rank 0 are soft0 and soft1, those of rank 1 soft2 and soft3.
void with_two_cards(transport::Member& member) {
  member.rdma.rails = 2;
  member.rdma.devices = member.rank == 0 ? "=soft0,soft1" : "=soft2,soft3";
}

class Failover : public testing::Test {
 protected:
  void start(const registry::TransportEntry& entry, const conformance::Adjust& adjust = {}) {
    crew_ = Crew::create(entry, 2, adjust);
    ASSERT_NE(crew_, nullptr);
    const Status status = crew_->connect_all();
    ASSERT_TRUE(status.ok()) << status.message();
    for (int r = 0; r < 2; ++r) {
      source_[r] = pattern(kBytes, static_cast<unsigned>(r));
      target_[r].assign(kBytes, std::byte{0});
      announce(r, source_[r]);
      announce(r, target_[r]);
    }
  }
  void TearDown() override {
    plant({~uint64_t{0}, 0, true, Sends::kAll});
    plant_late_writes(false);
    for (int card = 0; card < kMostCards; ++card) cut(card, false);
    known_.clear();
    crew_.reset();
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  void announce(int rank, std::vector<std::byte>& memory) {
    auto known = crew_->rank(rank).transport->announce({memory.data(), memory.size()});
    ASSERT_TRUE(known.ok()) << known.status().message();
    known_.push_back(std::move(known).value());
  }
  Link& link(int rank) { return crew_->link(rank, 1 - rank); }

  /// A large message each way, in three pieces, and many small ones. Whether all have come.
  bool exchange() {
    bool done[2] = {false, false};
    std::vector<std::byte> small[2];
    for (auto& each : target_) std::fill(each.begin(), each.end(), std::byte{0});
    conformance::in_parallel(2, [&](int r) { done[r] = exchange_at(r, small[r]); });
    for (int r = 0; r < 2 && done[0] && done[1]; ++r) {
      EXPECT_EQ(target_[r], source_[1 - r]) << "rank " << r;
      for (size_t i = 0; i < kSmall; ++i) EXPECT_EQ(small[r][i], std::byte(i)) << i;
    }
    return done[0] && done[1];
  }

  void fail_anywhere(bool adapts) {
    for (const Sends kind : {Sends::kSegments, Sends::kFrames}) {
      for (const bool arrives : {false, true}) {
        for (const uint64_t after : {0, 1, 7, 40, 48, 51, 90}) {
          SCOPED_TRACE(testing::Message() << "kind " << int(kind) << ", after " << after
                                          << (arrives ? ", has arrived" : ", was lost"));
          plant_late_writes(adapts);
          start(kOneCard,
                [&](transport::Member& member) { member.rdma.adaptive_routing = adapts; });
          ASSERT_TRUE(exchange());
          plant({after, kAnyError, arrives, kind});
          EXPECT_TRUE(exchange()) << link(0).status().message() << link(1).status().message();
          plant({~uint64_t{0}, 0, true, Sends::kAll});
          EXPECT_TRUE(exchange()) << "later";
          TearDown();
        }
      }
    }
  }

  std::unique_ptr<Crew> crew_;
  std::vector<std::byte> source_[2], target_[2];

 private:
  bool exchange_at(int r, std::vector<std::byte>& small) {
    transport::Stream& stream = *link(r).stream();
    std::vector<std::byte> words(kSmall);
    small.assign(kSmall, std::byte{0xff});
    for (size_t i = 0; i < kSmall; ++i) words[i] = std::byte(i);
    transport::Stream::Ticket sent = 0, received = 0;
    constexpr size_t kPieces = 3;
    for (size_t i = 0; i < kPieces; ++i) {
      const size_t begin = kBytes * i / kPieces, end = kBytes * (i + 1) / kPieces;
      const Buffer to{target_[r].data() + begin, end - begin};
      received = stream.receive(kChannel, 1, {&to, 1});
    }
    for (size_t i = 0; i < kSmall; ++i) {
      const Buffer to{&small[i], 1};
      received = stream.receive(kChannel, 2, {&to, 1});
    }
    for (size_t i = 0; i < kPieces; ++i) {
      const size_t begin = kBytes * i / kPieces, end = kBytes * (i + 1) / kPieces;
      const ConstBuffer from{source_[r].data() + begin, end - begin};
      sent = stream.send(kChannel, 1, {&from, 1});
    }
    for (size_t i = 0; i < kSmall; ++i) {
      const ConstBuffer from{&words[i], 1};
      sent = stream.send(kChannel, 2, {&from, 1});
    }
    return drive(link(r), [&] { return stream.sent(sent) && stream.received(received); });
  }

  std::vector<std::shared_ptr<const void>> known_;
};

TEST_F(Failover, OneQueuePairOfManyMayFailAnywhere) { fail_anywhere(false); }

// Also between what plain writes have brought and the note behind it.
TEST_F(Failover, OneQueuePairOfManyMayFailAnywhereUnderAdaptiveRouting) { fail_anywhere(true); }

class FailoverWithRouting : public Failover, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Adaptive, FailoverWithRouting, testing::Bool());

TEST_P(FailoverWithRouting, ManyMayFailOneAfterTheOther) {
  std::mt19937 random(4711);
  plant_late_writes(GetParam());
  start(kTwoCards, [](transport::Member& member) {
    with_two_cards(member);
    member.rdma.adaptive_routing = GetParam();
    member.rdma.queue_pairs = 8;
    member.rdma.segment_bytes = 16 << 10;
  });
  for (int failure = 0; failure < 7; ++failure) {
    plant({random() % 60, kAnyError, random() % 2 == 0, Sends::kSegments});
    ASSERT_TRUE(exchange()) << failure << ": " << link(0).status().message();
  }
  plant({random() % 60, kAnyError, random() % 2 == 0, Sends::kFrames});
  ASSERT_TRUE(exchange()) << link(0).status().message();
}

TEST_F(Failover, WhenTheLastQueuePairFailsTheErrorNamesThePort) {
  start(kOneCard);
  bool all = true;
  for (int failure = 0; failure < 2 && all; ++failure) {
    plant({3, kAnyError, false, Sends::kSegments});
    all = exchange();
    EXPECT_EQ(all, failure == 0);
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(link(r).status().code(), Code::kRemoteError);
  }
  const std::string both =
      std::string(link(0).status().message()) + std::string(link(1).status().message());
  EXPECT_NE(both.find("RDMA port soft0:1 says"), std::string::npos) << both;
}

TEST_F(Failover, SeveralCardsCarryOneMessageTogether) {
  start(kTwoCards, [](transport::Member& member) { with_two_cards(member); });
  const CardCounts before = counts();
  ASSERT_TRUE(exchange());
  const CardCounts after = counts();
  for (int card = 0; card < kMostCards; ++card) {
    EXPECT_GT(after.written_by[card] - before.written_by[card], kBytes / 3) << card;
  }
  EXPECT_GE(after.written_bytes - before.written_bytes, 2 * kMostOfIt);
}

TEST_F(Failover, AnEndWithMoreCardsThanTheOtherUsesAllOfThem) {
  start(kTwoCards, [](transport::Member& member) {
    with_two_cards(member);
    member.rdma.rails = 2 - static_cast<uint32_t>(member.rank);
  });
  const CardCounts before = counts();
  ASSERT_TRUE(exchange());
  for (const int card : {0, 1, 3}) {
    EXPECT_GT(counts().written_by[card] - before.written_by[card], 0u) << card;
  }
}

TEST_F(Failover, ADeadPortsFlowsMoveToTheOtherCard) {
  for (const int dead : {0, 1}) {
    SCOPED_TRACE(dead);
    start(kTwoCards, [](transport::Member& member) { with_two_cards(member); });
    ASSERT_TRUE(exchange());
    cut(dead, true);
    ASSERT_TRUE(exchange()) << link(0).status().message() << link(1).status().message();
    const CardCounts before = counts();
    ASSERT_TRUE(exchange());
    const CardCounts after = counts();
    EXPECT_GE(after.written_by[1 - dead] - before.written_by[1 - dead], kMostOfIt);
    EXPECT_EQ(after.written_by[dead], before.written_by[dead]);
    TearDown();
  }
}

TEST_F(Failover, WhenNoPortIsLeftTheErrorNamesOne) {
  start(kTwoCards, [](transport::Member& member) { with_two_cards(member); });
  cut(0, true);
  cut(1, true);
  EXPECT_FALSE(exchange());
  const std::string text =
      std::string(link(0).status().message()) + std::string(link(1).status().message());
  EXPECT_NE(text.find("RDMA port soft"), std::string::npos) << text;
  EXPECT_NE(text.find("transport retry counter exceeded"), std::string::npos) << text;
  EXPECT_NE(text.find("no other of its ports is left"), std::string::npos) << text;
}

// It may come back, so its queue pairs stay.
TEST_F(Failover, APortThatSaysItIsDownGetsNothingWhileAnotherOneIsUp) {
  start(kTwoCards, [](transport::Member& member) { with_two_cards(member); });
  tell(api::kEventPortError, 1, 0);
  for (int r = 0; r < 2; ++r) crew_->rank(r).transport->serve();
  const CardCounts before = counts();
  ASSERT_TRUE(exchange());
  EXPECT_EQ(counts().written_by[0] - before.written_by[0], 0u);
  tell(api::kEventPortActive, 1, 0);
  for (int r = 0; r < 2; ++r) crew_->rank(r).transport->serve();
  ASSERT_TRUE(exchange());
  EXPECT_GT(counts().written_by[0] - before.written_by[0], 0u);
}

TEST_F(Failover, ADeadCardOfTwoEndsNothing) {
  start(kTwoCards, [](transport::Member& member) { with_two_cards(member); });
  tell(api::kEventDeviceFatal, 0, 1);
  crew_->rank(0).transport->serve();
  for (int i = 0; i < 100; ++i) link(0).stream()->progress(), link(1).stream()->progress();
  ASSERT_TRUE(exchange()) << link(0).status().message();
  const CardCounts before = counts();
  ASSERT_TRUE(exchange());
  EXPECT_EQ(counts().written_by[1] - before.written_by[1], 0u);
}

}  // namespace
}  // namespace tutti::software_verbs
