// Links with one-sided access: puts and gets of every size in order with signals, refusals of what
// is not exposed, and links that are given up because a peer goes beyond a region.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "tests/conformance/transport_crew.h"
#include "tests/support/nap.h"

namespace tutti::conformance {
namespace {

using transport::ChannelId;
using transport::Link;
using transport::OneSided;

constexpr size_t kBytes = 3 << 20;
constexpr uint32_t kSignals = 4;
constexpr ChannelId kRegion{kCommunicator, 1, 7};
constexpr ChannelId kOther{kCommunicator, 1, 8};

/// Memory that rank 0 exposes to rank 1, and a thread that moves rank 0's link until the test ends.
class TransportOneSided : public TransportTest {
 protected:
  bool open() {
    crew_ = streaming(2);
    if (crew_ == nullptr) return false;
    if (crew_->link(0, 1).one_sided() == nullptr) {
      crew_.reset();
      return false;
    }
    target().one_sided()->expose(kRegion, {memory_.data(), kBytes, signals_.data(), kSignals});
    mover_ = std::thread([this] { drive(target(), [this] { return over_.load(); }); });
    return true;
  }
  void TearDown() override {
    over_.store(true);
    if (mover_.joinable()) mover_.join();
  }

  Link& target() { return crew_->link(0, 1); }
  Link& origin() { return crew_->link(1, 0); }
  OneSided& access() { return *origin().one_sided(); }

  bool put(uint64_t offset, const std::vector<std::byte>& data, uint32_t signal,
           ChannelId region = kRegion) {
    const auto ticket = access().put(region, offset, {data.data(), data.size()}, signal);
    return drive(origin(), [&] { return origin().stream()->sent(ticket); });
  }
  bool get(uint64_t offset, std::vector<std::byte>& data, ChannelId region = kRegion) {
    const auto ticket = access().get(region, offset, {data.data(), data.size()});
    return drive(origin(), [&] { return origin().stream()->received(ticket); });
  }
  bool dies(Link& link) {
    return !drive(link, [] { return false; }) && !link.status().ok();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  std::array<std::atomic<uint64_t>, kSignals> signals_{};
  std::unique_ptr<Crew> crew_;
  std::atomic<bool> over_{false};
  std::thread mover_;
};

TEST_P(TransportOneSided, PutsAreThereWhenTheirSignalIs) {
  if (!open()) return;
  uint64_t raised = 0;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{47}, size_t{4097}, size_t{262145}, kBytes}) {
    const auto data = pattern(bytes, static_cast<unsigned>(bytes));
    const uint64_t offset = kBytes - bytes;
    ASSERT_TRUE(put(offset, data, 2)) << origin().status().message();
    ++raised;
    while (signals_[2].load(std::memory_order_acquire) < raised) std::this_thread::yield();
    ASSERT_TRUE(
        std::equal(data.begin(), data.end(), memory_.begin() + static_cast<ptrdiff_t>(offset)))
        << bytes;
  }
  EXPECT_EQ(signals_[2].load(), raised);  // one for each, however many pieces it went in
  EXPECT_EQ(signals_[0].load(), 0u);
}

TEST_P(TransportOneSided, AGetSeesThePutsBeforeIt) {
  if (!open()) return;
  for (unsigned turn = 0; turn < 20; ++turn) {
    const size_t bytes = turn % 2 == 0 ? 5 : kBytes;
    const auto data = pattern(bytes, turn);
    std::vector<std::byte> back(bytes);
    const auto sent = access().put(kRegion, 0, {data.data(), data.size()}, OneSided::kNoSignal);
    ASSERT_TRUE(get(0, back)) << origin().status().message();
    ASSERT_TRUE(origin().stream()->sent(sent));
    ASSERT_EQ(back, data);
  }
}

TEST_P(TransportOneSided, ManyGetsAreAnsweredInOrder) {
  if (!open()) return;
  constexpr size_t kGets = 200;
  ASSERT_TRUE(put(0, pattern(kBytes, 9), OneSided::kNoSignal));
  std::vector<std::vector<std::byte>> parts(kGets, std::vector<std::byte>(5000));
  std::vector<transport::Stream::Ticket> tickets;
  for (size_t i = 0; i < kGets; ++i) {
    tickets.push_back(access().get(kRegion, i * 5000, {parts[i].data(), parts[i].size()}));
  }
  ASSERT_TRUE(drive(origin(), [&] { return origin().stream()->received(tickets.back()); }));
  const auto whole = pattern(kBytes, 9);
  for (size_t i = 0; i < kGets; ++i) {
    EXPECT_TRUE(origin().stream()->received(tickets[i]));
    EXPECT_TRUE(std::equal(parts[i].begin(), parts[i].end(),
                           whole.begin() + static_cast<ptrdiff_t>(i * 5000)));
  }
}

TEST_P(TransportOneSided, WhatIsNotExposedIsRefusedAndTheLinkGoesOn) {
  if (!open()) return;
  const auto data = pattern(1 << 20, 1);
  std::vector<std::byte> back(10);
  EXPECT_FALSE(access().refused(kOther));
  ASSERT_TRUE(put(0, data, 1, kOther));
  ASSERT_TRUE(get(0, back, kOther)) << "a refused get ends, too";
  EXPECT_TRUE(access().refused(kOther));
  EXPECT_FALSE(access().refused(kRegion));
  EXPECT_EQ(back, std::vector<std::byte>(10));
  ASSERT_TRUE(put(0, data, 1));
  std::vector<std::byte> all(data.size());
  ASSERT_TRUE(get(0, all));
  EXPECT_EQ(all, data);
  EXPECT_TRUE(origin().status().ok() && target().status().ok());
}

TEST_P(TransportOneSided, NothingIsWrittenAfterWithdraw) {
  if (!open()) return;
  const auto data = pattern(kBytes, 5);
  const auto ticket = access().put(kRegion, 0, {data.data(), data.size()}, 0);
  for (int i = 0; i < 3; ++i) origin().stream()->progress();  // it is on its way
  while (!target().one_sided()->withdraw(kRegion)) std::this_thread::yield();
  std::fill(memory_.begin(), memory_.end(), std::byte{7});
  const uint64_t raised = signals_[0].load();
  ASSERT_TRUE(drive(origin(), [&] { return origin().stream()->sent(ticket); }));
  std::vector<std::byte> back(1);
  ASSERT_TRUE(get(0, back));
  EXPECT_TRUE(access().refused(kRegion));
  EXPECT_EQ(std::count(memory_.begin(), memory_.end(), std::byte{7}),
            static_cast<ptrdiff_t>(kBytes));
  EXPECT_EQ(signals_[0].load(), raised);
}

TEST_P(TransportOneSided, WithdrawWaitsForAnAnswerThatReadsIt) {
  if (!open()) return;
  over_.store(true);  // nobody moves the target but this test
  mover_.join();
  // More than what the kernels of both sides take, which is not read here.
  std::vector<std::byte> large(64 << 20), back(large.size());
  target().one_sided()->expose(kOther, {large.data(), large.size(), nullptr, 0});
  const auto ticket = access().get(kOther, 0, {back.data(), back.size()});
  for (int i = 0; i < 100; ++i) {
    target().stream()->progress();
    testing_support::nap(target());
  }
  EXPECT_FALSE(target().one_sided()->withdraw(kOther));
  EXPECT_TRUE(target().one_sided()->has_output());
  ASSERT_TRUE(drive(origin(), [&] {
    target().stream()->progress();
    return origin().stream()->received(ticket);
  }));
  EXPECT_TRUE(target().one_sided()->withdraw(kOther));
}

TEST_P(TransportOneSided, BeyondTheEndTheLinkIsGivenUp) {
  for (const bool gets : {false, true}) {
    if (!open()) return;
    std::vector<std::byte> data(16);
    if (gets) {
      access().get(kRegion, kBytes - 15, {data.data(), data.size()});
    } else {
      access().put(kRegion, kBytes - 15, {data.data(), data.size()}, OneSided::kNoSignal);
    }
    EXPECT_TRUE(dies(origin()));
    TearDown();
    EXPECT_EQ(target().status().code(), Code::kRemoteError);
    const std::string message(target().status().message());
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("beyond the window's end"), std::string::npos) << message;
    EXPECT_EQ(std::count(memory_.begin(), memory_.end(), std::byte{0}),
              static_cast<ptrdiff_t>(kBytes));
    over_.store(false);
  }
}

TEST_P(TransportOneSided, ASignalThatDoesNotExistIsNotRaised) {
  if (!open()) return;
  access().put(kRegion, 0, {nullptr, 0}, kSignals);
  EXPECT_TRUE(dies(origin()));
  TearDown();
  const std::string message(target().status().message());
  EXPECT_NE(message.find("signal"), std::string::npos) << message;
}

TUTTI_FOR_EVERY_TRANSPORT(TransportOneSided);

}  // namespace
}  // namespace tutti::conformance
