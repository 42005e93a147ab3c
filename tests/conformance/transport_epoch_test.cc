// Two communicators on one link: one of them fails, by a mismatch, or given up in the middle of a
// long message, also of a peer that reads nothing; the other one's messages go on over the same
// link.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Buffer;
using transport::ConstBuffer;
using transport::EpochId;
using transport::Link;

constexpr EpochId kFails{kCommunicator, 1}, kGoesOn{kCommunicator + 1, 1};
constexpr size_t kLong = 64 << 20, kShort = 100'000;
constexpr std::byte kReused{0x55};

class TransportEpoch : public TransportTest {};

transport::ChannelId lane(EpochId epoch, uint32_t number) {
  return {epoch.communicator, epoch.epoch, number};
}

/// Messages both ways on the communicator that goes on.
void expect_others_go_on(Crew& crew) {
  in_parallel(2, [&](int r) {
    Link& link = crew.link(r, 1 - r);
    for (unsigned round = 0; round < 20; ++round) {
      const auto source = pattern(kShort, round + static_cast<unsigned>(r));
      std::vector<std::byte> target(kShort);
      const Buffer in{target.data(), kShort};
      const ConstBuffer out{source.data(), kShort};
      const auto received = link.stream()->receive(lane(kGoesOn, 0), 1, {&in, 1});
      const auto sent = link.stream()->send(lane(kGoesOn, 0), 1, {&out, 1});
      ASSERT_TRUE(drive(link, [&] {
        return link.stream()->received(received) && link.stream()->sent(sent);
      })) << link.status().message();
      ASSERT_EQ(target, pattern(kShort, round + static_cast<unsigned>(1 - r)));
    }
    EXPECT_TRUE(link.status().ok()) << link.status().message();
  });
}

/// A message of 64 MiB from rank 0 to rank 1, of which a part is on its way.
struct LongMessage {
  explicit LongMessage(Crew& crew) {
    const Buffer in{target.data(), target.size()};
    const ConstBuffer out{source.data(), source.size()};
    crew.link(1, 0).stream()->receive(lane(kFails, 0), 1, {&in, 1});
    crew.link(0, 1).stream()->send(lane(kFails, 0), 1, {&out, 1});
    // The credit reaches rank 0, and the first frames fill what lies between.
    for (int turn = 0; turn < 2000; ++turn) {
      crew.link(0, 1).stream()->progress();
      if (turn < 3) crew.link(1, 0).stream()->progress();
    }
  }
  std::vector<std::byte> source = pattern(kLong, 3);
  std::vector<std::byte> target = std::vector<std::byte>(kLong);
};

/// Ends the epoch at `rank` and waits until memory is the caller's.
void give_up(Crew& crew, int rank) {
  Link& link = crew.link(rank, 1 - rank);
  link.stream()->end_epoch(kFails);
  ASSERT_TRUE(drive(link, [&] { return link.stream()->has_let_go(kFails); }));
}

TEST_P(TransportEpoch, TheSenderOfALongMessageGivesUp) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  LongMessage message(*crew);
  give_up(*crew, 0);
  std::fill(message.source.begin(), message.source.end(), kReused);
  expect_others_go_on(*crew);
  const auto sent = pattern(kLong, 3);
  for (size_t i = 0; i < kLong; ++i) {
    ASSERT_TRUE(message.target[i] == sent[i] || message.target[i] == std::byte{0}) << i;
  }
}

TEST_P(TransportEpoch, TheReceiverOfALongMessageGivesUp) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  LongMessage message(*crew);
  give_up(*crew, 1);
  std::fill(message.target.begin(), message.target.end(), kReused);
  expect_others_go_on(*crew);
  EXPECT_EQ(std::count(message.target.begin(), message.target.end(), kReused),
            static_cast<ptrdiff_t>(kLong));
}

// A rank that waits for a stopped one gives up by its deadline. The stopped one goes on later.
TEST_P(TransportEpoch, APeerThatReadsNothingKeepsTheLink) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  LongMessage message(*crew);
  Link& link = crew->link(0, 1);
  link.stream()->end_epoch(kFails);
  for (int turn = 0; turn < 100; ++turn) link.stream()->progress();
  if (!link.stream()->has_let_go(kFails)) {
    GTEST_SKIP() << GetParam().name << " writes into memory of its peer, which must agree";
  }
  std::fill(message.source.begin(), message.source.end(), kReused);
  EXPECT_TRUE(link.status().ok());
  expect_others_go_on(*crew);
}

TEST_P(TransportEpoch, AMismatchEndsOneCommunicatorAndItsNameIsSaid) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  std::vector<std::byte> source(64), target(128);
  const Buffer in{target.data(), target.size()};
  const ConstBuffer out{source.data(), source.size()};
  crew->link(1, 0).stream()->receive(lane(kFails, 0), 1, {&in, 1});
  crew->link(0, 1).stream()->send(lane(kFails, 0), 1, {&out, 1});
  in_parallel(2, [&](int r) {
    Link& link = crew->link(r, 1 - r);
    ASSERT_TRUE(drive(link, [&] { return !link.stream()->epoch_status(kFails).ok(); }));
    EXPECT_TRUE(link.stream()->epoch_status(kGoesOn).ok());
    link.stream()->end_epoch(kFails);
  });
  expect_others_go_on(*crew);
}

TUTTI_FOR_EVERY_TRANSPORT(TransportEpoch);

}  // namespace
}  // namespace tutti::conformance
