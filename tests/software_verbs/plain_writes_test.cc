// Writes that take no receive of the peer, and the notes behind them: where adaptive routing is
// asked for, and puts. The cards here have their bytes in memory as late as they may.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"

namespace tutti::software_verbs {
namespace {

using conformance::Crew;
using conformance::drive;
using conformance::pattern;
using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;

constexpr ChannelId kChannel{conformance::kCommunicator, 1, 0};
constexpr ChannelId kRegion{conformance::kCommunicator, 1, 9};
constexpr registry::TransportEntry kEntry{"verbs", &make};
constexpr size_t kBytes = 5 << 20;
constexpr size_t kLargePut = 40 << 20;  // ten times what a link has receives for

class PlainWrites : public testing::Test {
 protected:
  void start(const conformance::Adjust& adjust) {
    plant_late_writes(true);
    crew_ = Crew::create(kEntry, 2, adjust);
    ASSERT_NE(crew_, nullptr);
    ASSERT_TRUE(crew_->connect_all().ok());
  }
  void TearDown() override {
    known_.clear();
    crew_.reset();
    plant_late_writes(false);
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  void announce(int rank, std::vector<std::byte>& memory) {
    auto known = crew_->rank(rank).transport->announce({memory.data(), memory.size()});
    ASSERT_TRUE(known.ok()) << known.status().message();
    known_.push_back(std::move(known).value());
  }
  Link& origin() { return crew_->link(0, 1); }
  Link& owner() { return crew_->link(1, 0); }
  /// From rank 0 to rank 1, in messages of `each` bytes.
  void pass(size_t each) {
    std::vector<std::byte> source = pattern(kBytes, unsigned(each)), target(kBytes);
    announce(0, source);
    announce(1, target);
    transport::Stream::Ticket sent = 0, received = 0;
    for (size_t at = 0; at < kBytes; at += each) {
      const Buffer to{target.data() + at, each};
      const ConstBuffer from{source.data() + at, each};
      received = owner().stream()->receive(kChannel, 1, {&to, 1});
      for (int i = 0; i < 10; ++i) owner().stream()->progress(), origin().stream()->progress();
      sent = origin().stream()->send(kChannel, 1, {&from, 1});
    }
    conformance::in_parallel(2, [&](int r) {
      Link& link = r == 0 ? origin() : owner();
      EXPECT_TRUE(drive(link, [&] {
        return r == 0 ? link.stream()->sent(sent) : link.stream()->received(received);
      })) << link.status().message();
    });
    EXPECT_EQ(source, target);
    known_.clear();
  }

  std::unique_ptr<Crew> crew_;
  std::vector<std::shared_ptr<const void>> known_;
};

TEST_F(PlainWrites, CarryAllBytesWhereAdaptiveRoutingIsAskedFor) {
  start([](transport::Member& member) { member.rdma.adaptive_routing = true; });
  for (const size_t each : {kBytes, kBytes / 5, size_t{64} << 10, size_t{32} << 10}) {
    const CardCounts before = counts();
    pass(each);
    EXPECT_EQ(counts().immediate_bytes - before.immediate_bytes, 0u) << each;
    EXPECT_EQ(counts().written_bytes - before.written_bytes, kBytes) << each;
    EXPECT_EQ(counts().waits, before.waits);
  }
}

TEST_F(PlainWrites, MayComeFromOneEndAlone) {
  for (const int asks : {0, 1}) {
    start([&](transport::Member& member) { member.rdma.adaptive_routing = member.rank == asks; });
    const CardCounts before = counts();
    pass(kBytes);
    EXPECT_EQ(counts().immediate_bytes - before.immediate_bytes == 0, asks == 0);
    TearDown();
  }
}

TEST_F(PlainWrites, OfAnyPutNeedNothingOfTheOwnersProcessor) {
  start({});
  std::vector<std::byte> source = pattern(kLargePut, 6), window(kLargePut);
  std::atomic<uint64_t> signals[1] = {};
  announce(0, source);
  announce(1, window);
  owner().one_sided()->expose(kRegion, {window.data(), kLargePut, signals, 1});
  for (int i = 0; i < 100; ++i) owner().stream()->progress(), origin().stream()->progress();
  for (uint64_t round = 1; round <= 3; ++round) {
    std::fill(window.begin(), window.end(), std::byte{0});
    const uint64_t before = counts().written_bytes;
    const auto put = origin().one_sided()->put(kRegion, 0, {source.data(), kLargePut}, 0);
    // The owner computes.
    ASSERT_TRUE(drive(origin(), [&] { return origin().stream()->sent(put); }))
        << origin().status().message();
    EXPECT_EQ(counts().written_bytes - before, kLargePut);
    EXPECT_EQ(signals[0].load(), round - 1);
    ASSERT_TRUE(drive(origin(), [&] {
      owner().stream()->progress();
      return signals[0].load() == round;
    }));
    EXPECT_EQ(source, window);
  }
}

// Their notes wait for receives, in order, and the peer is told of few before it has them.
TEST_F(PlainWrites, OfManyPutsAreToldOfInOrder) {
  constexpr size_t kPut = 64 << 10;
  constexpr int kPuts = 600;
  start({});
  std::vector<std::byte> source = pattern(kPut, 8), window(kPut);
  std::atomic<uint64_t> signals[1] = {};
  announce(0, source);
  announce(1, window);
  owner().one_sided()->expose(kRegion, {window.data(), kPut, signals, 1});
  for (int i = 0; i < 100; ++i) owner().stream()->progress(), origin().stream()->progress();
  for (int i = 0; i < kPuts; ++i) {
    origin().one_sided()->put(kRegion, 0, {source.data(), kPut}, 0);
    origin().stream()->progress();
  }
  ASSERT_TRUE(drive(origin(),
                    [&] {
                      owner().stream()->progress();
                      return signals[0].load() == kPuts;
                    }))
      << origin().status().message() << owner().status().message();
  EXPECT_EQ(source, window);
}

}  // namespace
}  // namespace tutti::software_verbs
