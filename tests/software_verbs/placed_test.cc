// Messages from and to registered memory, which the cards move without a copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"
#include "transports/verbs/api.h"

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

class PlacedMessages : public testing::Test {
 protected:
  void SetUp() override {
    crew_ = Crew::create(kEntry, 2);
    ASSERT_NE(crew_, nullptr);
    ASSERT_TRUE(crew_->connect_all().ok());
  }
  void TearDown() override {
    known_.clear();
    crew_.reset();
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  void announce(int rank, std::vector<std::byte>& memory) {
    auto known = crew_->rank(rank).transport->announce({memory.data(), memory.size()});
    ASSERT_TRUE(known.ok()) << known.status().message();
    known_.push_back(std::move(known).value());
  }
  /// Rank 1 waits for it in so many messages, and rank 0, which knows that, sends it. How many
  /// bytes the cards wrote.
  uint64_t pass(const std::vector<std::byte>& source, std::vector<std::byte>& target,
                size_t messages) {
    const uint64_t before = counts().written_bytes;
    const size_t each = source.size() / messages;
    transport::Stream::Ticket last[2] = {};
    for (int r = 1; r >= 0; --r) {
      transport::Stream& stream = *crew_->link(r, 1 - r).stream();
      for (size_t i = 0; i < messages; ++i) {
        const ConstBuffer from{source.data() + i * each, each};
        const Buffer to{target.data() + i * each, each};
        last[r] =
            r == 0 ? stream.send(kChannel, 3, {&from, 1}) : stream.receive(kChannel, 3, {&to, 1});
      }
      while (crew_->link(1, 0).stream()->progress() || crew_->link(0, 1).stream()->progress()) {
      }
    }
    conformance::in_parallel(2, [&](int r) {
      Link& link = crew_->link(r, 1 - r);
      EXPECT_TRUE(drive(link, [&] {
        return r == 0 ? link.stream()->sent(last[0]) : link.stream()->received(last[1]);
      })) << link.status().message();
    });
    return counts().written_bytes - before;
  }

  std::unique_ptr<Crew> crew_;
  std::vector<std::shared_ptr<const void>> known_;
};

constexpr size_t kBytes = 5 << 20;

TEST_F(PlacedMessages, AreWrittenByTheCardsAndByNobodyElse) {
  std::vector<std::byte> source = pattern(kBytes, 1), target(kBytes);
  announce(0, source);
  announce(1, target);
  for (const size_t messages : {1, 2, 20, 160}) {
    std::fill(target.begin(), target.end(), std::byte{0});
    EXPECT_EQ(pass(source, target, messages), kBytes) << messages;
    EXPECT_EQ(source, target) << messages;
  }
  EXPECT_EQ(counts().waits, 0u);
}

// As slots of pinned memory are by which calls of devices send and receive.
TEST_F(PlacedMessages, OfRegisteredMemoryAreCopiedByNoProcessor) {
  constexpr size_t kSlot = 256 << 10;
  std::vector<std::byte> source = pattern(kSlot, 9), target(kSlot), other = pattern(kSlot, 10);
  announce(0, source);
  announce(1, target);
  const auto by_processor = [&] { return crew_->rank(0).transport->moved()->by_processor; };
  transport::Stream& sender = *crew_->link(0, 1).stream();
  transport::Stream& receiver = *crew_->link(1, 0).stream();
  uint64_t copied = 0;
  for (const auto* from : {&source, &other}) {
    for (int round = 1; round <= 5; ++round) {
      const Buffer to{target.data(), kSlot};
      const ConstBuffer piece{from->data(), kSlot};
      const auto received = receiver.receive(kChannel, 3, {&to, 1});
      // The receive is known before the send: what is unasked goes as frames, by copies.
      for (int i = 0; i < 20; ++i) receiver.progress(), sender.progress();
      sender.send(kChannel, 3, {&piece, 1});
      ASSERT_TRUE(drive(crew_->link(1, 0), [&] {
        sender.progress();
        return receiver.received(received);
      }));
      EXPECT_EQ(*from, target);
      copied += from == &other ? kSlot : 0;
      EXPECT_EQ(by_processor(), copied);
    }
  }
  EXPECT_EQ(crew_->rank(0).transport->moved()->by_hardware, 10 * kSlot);
}

TEST_F(PlacedMessages, OfASourceThatIsNotRegisteredAreCopiedOnce) {
  const std::vector<std::byte> source = pattern(kBytes, 2);
  std::vector<std::byte> target(kBytes);
  announce(1, target);
  EXPECT_EQ(pass(source, target, 3), kBytes / 3 * 3);
  EXPECT_TRUE(std::equal(source.begin(), source.begin() + kBytes / 3 * 3, target.begin()));
}

TEST_F(PlacedMessages, ToMemoryThatIsNotRegisteredAreFrames) {
  std::vector<std::byte> source = pattern(kBytes, 3), target(kBytes);
  announce(0, source);
  EXPECT_EQ(pass(source, target, 1), 0u);
  EXPECT_EQ(source, target);
}

TEST_F(PlacedMessages, BothWaysAtOnce) {
  std::vector<std::byte> source[2] = {pattern(kBytes, 4), pattern(kBytes, 5)};
  std::vector<std::byte> target[2] = {std::vector<std::byte>(kBytes),
                                      std::vector<std::byte>(kBytes)};
  for (int r = 0; r < 2; ++r) {
    announce(r, source[r]);
    announce(r, target[r]);
  }
  conformance::in_parallel(2, [&](int r) {
    Link& link = crew_->link(r, 1 - r);
    const Buffer to{target[r].data(), kBytes};
    const ConstBuffer from{source[r].data(), kBytes};
    const auto received = link.stream()->receive(kChannel, 1, {&to, 1});
    const auto sent = link.stream()->send(kChannel, 1, {&from, 1});
    EXPECT_TRUE(drive(link, [&] { return link.stream()->received(received); }));
    EXPECT_TRUE(drive(link, [&] { return link.stream()->sent(sent); }));
  });
  EXPECT_EQ(source[0], target[1]);
  EXPECT_EQ(source[1], target[0]);
}

TEST_F(PlacedMessages, PutsAreWrittenAndTheirSignalsComeBehind) {
  std::vector<std::byte> source = pattern(kBytes, 6), window(kBytes);
  std::atomic<uint64_t> signals[2] = {};
  announce(0, source);
  announce(1, window);
  crew_->link(1, 0).one_sided()->expose(kRegion, {window.data(), kBytes, signals, 2});
  const uint64_t before = counts().written_bytes;
  Link& origin = crew_->link(0, 1);
  Link& owner = crew_->link(1, 0);
  for (int i = 0; i < 100; ++i) owner.stream()->progress(), origin.stream()->progress();
  const auto put = origin.one_sided()->put(kRegion, 0, {source.data(), kBytes}, 1);
  ASSERT_TRUE(drive(origin, [&] {
    owner.stream()->progress();
    return origin.stream()->sent(put) && signals[1].load() == 1;
  })) << origin.status().message();
  EXPECT_EQ(source, window);
  EXPECT_EQ(counts().written_bytes - before, kBytes);
}

// A key that ends while the peer still writes by it would end the queue pair.
TEST_F(PlacedMessages, AWindowThatEndsUnderPutsEndsNoLink) {
  constexpr size_t kPut = 256 << 10;
  std::vector<std::byte> source = pattern(kPut, 8), window(kPut);
  std::atomic<uint64_t> signals[1] = {};
  announce(0, source);
  announce(1, window);
  Link& origin = crew_->link(0, 1);
  Link& owner = crew_->link(1, 0);
  owner.one_sided()->expose(kRegion, {window.data(), kPut, signals, 1});
  const auto move_both = [&] {
    owner.stream()->progress();
    origin.stream()->progress();
  };
  for (int i = 0; i < 100; ++i) move_both();
  for (int i = 0; i < 10; ++i) {
    origin.one_sided()->put(kRegion, 0, {source.data(), kPut}, 0);
    if (i % 3 == 0) move_both();
  }
  ASSERT_TRUE(drive(owner, [&] {
    origin.stream()->progress();
    return owner.one_sided()->withdraw(kRegion);
  }));
  known_.pop_back();  // the window's: it is the owner's again
  std::fill(window.begin(), window.end(), std::byte{0xee});
  const auto late = origin.one_sided()->put(kRegion, 0, {source.data(), kPut}, 0);
  EXPECT_TRUE(drive(origin, [&] {
    owner.stream()->progress();
    return origin.stream()->sent(late) && origin.one_sided()->refused(kRegion);
  }));
  EXPECT_EQ(std::count(window.begin(), window.end(), std::byte{0xee}), long{kPut});
  EXPECT_TRUE(owner.status().ok()) << owner.status().message();
  EXPECT_TRUE(origin.status().ok()) << origin.status().message();
}

class ReadWindows : public PlacedMessages {
 protected:
  void SetUp() override {
    PlacedMessages::SetUp();
    window_ = pattern(kBytes, 11);
    target_.assign(kBytes, std::byte{0});
    announce(0, target_);
    announce(1, window_);
    owner().one_sided()->expose(kRegion, {window_.data(), kBytes, signals_, 2});
    for (int i = 0; i < 100; ++i) move_both();
  }
  Link& origin() { return crew_->link(0, 1); }
  Link& owner() { return crew_->link(1, 0); }
  void move_both() {
    owner().stream()->progress();
    origin().stream()->progress();
  }
  /// By the cards; the owner does nothing.
  bool comes(transport::Stream::Ticket ticket) {
    return drive(origin(), [&] { return origin().stream()->received(ticket); });
  }
  uint64_t reads() { return counts().read_bytes; }

  std::vector<std::byte> window_, target_;
  std::atomic<uint64_t> signals_[2] = {};
};

TEST_F(ReadWindows, GetsNeedNothingOfTheOwnersProcessor) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{300'000}, kBytes}) {
    const uint64_t before = reads();
    const size_t offset = kBytes - bytes;
    ASSERT_TRUE(comes(origin().one_sided()->get(kRegion, offset, {target_.data(), bytes})));
    EXPECT_TRUE(
        std::equal(target_.begin(), target_.begin() + long(bytes), window_.begin() + long(offset)));
    EXPECT_EQ(reads() - before, bytes);
  }
  EXPECT_EQ(counts().waits, 0u);
}

TEST_F(ReadWindows, ATargetThatIsNotRegisteredIsCopiedOnce) {
  std::vector<std::byte> other(kBytes);
  const uint64_t before = reads();
  ASSERT_TRUE(comes(origin().one_sided()->get(kRegion, 0, {other.data(), kBytes})));
  EXPECT_EQ(other, window_);
  EXPECT_EQ(reads() - before, kBytes);
}

TEST_F(ReadWindows, SeeThePutsBeforeThemAndNotThoseBehind) {
  const std::vector<std::byte> first = pattern(kBytes, 12), second = pattern(kBytes, 13);
  for (int round = 0; round < 3; ++round) {
    origin().one_sided()->put(kRegion, 0, {first.data(), kBytes}, 0);
    const auto got = origin().one_sided()->get(kRegion, 0, {target_.data(), kBytes});
    origin().one_sided()->put(kRegion, 0, {second.data(), kBytes}, 1);
    ASSERT_TRUE(drive(origin(), [&] {
      owner().stream()->progress();  // it grants receives for the immediate values of puts
      return origin().stream()->received(got);
    }));
    EXPECT_EQ(target_, first) << round;
  }
  EXPECT_GE(reads(), 3 * kBytes);
}

// A small put is a frame, on which the owner's processor acts, so a get behind it is one, too.
TEST_F(ReadWindows, DoNotOvertakeSmallPuts) {
  const std::vector<std::byte> word = pattern(100, 14);
  const uint64_t before = reads();
  origin().one_sided()->put(kRegion, 0, {word.data(), 100}, 0);
  const auto got = origin().one_sided()->get(kRegion, 0, {target_.data(), 100});
  for (int i = 0; i < 100; ++i) origin().stream()->progress();
  EXPECT_FALSE(origin().stream()->received(got)) << "the owner has not moved";
  ASSERT_TRUE(drive(origin(), [&] {
    owner().stream()->progress();
    return origin().stream()->received(got);
  }));
  EXPECT_TRUE(std::equal(word.begin(), word.end(), target_.begin()));
  EXPECT_EQ(reads(), before);
  // Its answer has proved that the put is done.
  ASSERT_TRUE(comes(origin().one_sided()->get(kRegion, 0, {target_.data(), 200})));
  EXPECT_EQ(reads() - before, 200u);
}

TEST_F(ReadWindows, BeyondTheEndTheOwnerDecides) {
  origin().one_sided()->get(kRegion, kBytes - 1, {target_.data(), 2});
  EXPECT_FALSE(drive(origin(), [&] {
    owner().stream()->progress();
    return false;
  }));
  EXPECT_NE(owner().status().message().find("a get beyond the window's end"), std::string::npos)
      << owner().status().message();
}

TEST_F(ReadWindows, EndRefusedWithTheirWindowAndNoLinkEnds) {
  for (int i = 0; i < 3; ++i) {
    origin().one_sided()->get(kRegion, 0, {target_.data(), kBytes});
  }
  const auto last = origin().one_sided()->get(kRegion, 0, {target_.data(), kBytes});
  ASSERT_TRUE(drive(owner(), [&] {
    origin().stream()->progress();
    return owner().one_sided()->withdraw(kRegion);
  }));
  known_.pop_back();
  EXPECT_TRUE(comes(last));
  const auto late = origin().one_sided()->get(kRegion, 0, {target_.data(), 100});
  EXPECT_TRUE(drive(origin(), [&] {
    owner().stream()->progress();
    return origin().stream()->received(late) && origin().one_sided()->refused(kRegion);
  }));
  EXPECT_TRUE(owner().status().ok()) << owner().status().message();
  EXPECT_TRUE(origin().status().ok()) << origin().status().message();
}

TEST_F(ReadWindows, OfAFailedQueuePairAreMadeOnAnotherOne) {
  plant({3, transports::verbs::api::kFlushed, false, Sends::kReads});
  const auto got = origin().one_sided()->get(kRegion, 0, {target_.data(), kBytes});
  EXPECT_TRUE(drive(origin(), [&] {
    owner().stream()->progress();
    return origin().stream()->received(got);
  })) << origin().status().message();
  EXPECT_EQ(target_, window_);
  plant({~uint64_t{0}, 0, true, Sends::kAll});
}

TEST_F(ReadWindows, AnEpochThatEndsWaitsForThem) {
  const transport::EpochId epoch{kRegion.communicator, kRegion.epoch};
  for (int i = 0; i < 4; ++i) {
    origin().one_sided()->get(kRegion, 0, {target_.data(), kBytes});
  }
  origin().stream()->end_epoch(epoch);
  ASSERT_TRUE(drive(origin(), [&] {
    owner().stream()->progress();
    return origin().stream()->has_let_go(epoch);
  }));
  std::fill(target_.begin(), target_.end(), std::byte{0xee});
  for (int i = 0; i < 1000; ++i) move_both();
  EXPECT_EQ(std::count(target_.begin(), target_.end(), std::byte{0xee}), long{kBytes});
}

// The canary: what a peer that goes on writes does not land.
TEST_F(PlacedMessages, NothingIsWrittenOnceALinkHasEnded) {
  std::vector<std::byte> source = pattern(kBytes, 7), target(kBytes);
  announce(0, source);
  announce(1, target);
  Link& sender = crew_->link(0, 1);
  Link& receiver = crew_->link(1, 0);
  const Buffer to{target.data(), kBytes};
  const ConstBuffer from{source.data(), kBytes};
  receiver.stream()->receive(kChannel, 1, {&to, 1});
  for (int i = 0; i < 3; ++i) receiver.stream()->progress(), sender.stream()->progress();
  receiver.sever("the test says so");
  std::fill(target.begin(), target.end(), std::byte{0xee});
  sender.stream()->send(kChannel, 1, {&from, 1});
  EXPECT_FALSE(drive(sender, [] { return false; }));
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{0xee}), long{kBytes});
  EXPECT_EQ(sender.status().code(), Code::kRemoteError);
}

}  // namespace
}  // namespace tutti::software_verbs
