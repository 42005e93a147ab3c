// Every transport: cards, capabilities, connecting all to all, and who is refused.
#include <gtest/gtest.h>

#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Capabilities;
using transport::Link;
using transport::Transport;

class TransportConnect : public TransportTest {};

TEST_P(TransportConnect, CardsAreSmallAndHoldNoSecret) {
  auto crew = Crew::create(GetParam(), 2);
  ASSERT_NE(crew, nullptr);
  for (int r = 0; r < 2; ++r) {
    const std::string card = crew->rank(r).transport->card();
    EXPECT_FALSE(card.empty());
    EXPECT_LE(card.size(), Transport::kMaxCardBytes);
    const auto& key = crew->rank(r).member.key;
    const std::string secret(reinterpret_cast<const char*>(key.data()), 8);
    EXPECT_EQ(card.find(secret), std::string::npos);
    EXPECT_EQ(crew->rank(r).transport->name(), GetParam().name);
  }
}

TEST_P(TransportConnect, ReachingIsMutual) {
  for (const Distance distance : {Distance::kHosts, Distance::kProcesses, Distance::kThreads}) {
    transport::Arena arenas[2];
    transport::Member members[2];
    std::unique_ptr<Transport> ends[2];
    for (int r = 0; r < 2; ++r) {
      auto arena = transport::Arena::create("tutti-test", kArenaBytes);
      ASSERT_TRUE(arena.ok()) << arena.status().message();
      arenas[r] = std::move(arena).value();
      members[r] = make_member(r, 2, distance);
      members[r].arena = &arenas[r];
      auto made = GetParam().make(members[r]);
      ASSERT_TRUE(made.ok()) << made.status().message();
      ends[r] = std::move(made).value();
    }
    EXPECT_EQ(ends[0]->reaches(ends[1]->card()), ends[1]->reaches(ends[0]->card()));
  }
}

TEST_P(TransportConnect, NonsenseIsNoCard) {
  auto crew = Crew::create(GetParam(), 2);
  ASSERT_NE(crew, nullptr);
  const std::string good = crew->rank(1).transport->card();
  for (const std::string& card :
       {std::string(), std::string(1000, 'x'), std::string("\0\0\0", 3), good.substr(0, 5)}) {
    EXPECT_FALSE(crew->rank(0).transport->reaches(card));
    auto link = crew->rank(0).transport->connect(1, card, monotonic_ns() + 1'000'000);
    EXPECT_FALSE(link.ok());
  }
}

TEST_P(TransportConnect, AllToAll) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    auto crew = connected(ranks);
    ASSERT_NE(crew, nullptr) << ranks;
    for (int r = 0; r < ranks; ++r) {
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == r) continue;
        EXPECT_TRUE(crew->link(r, peer).status().ok());
      }
    }
  }
}

TEST_P(TransportConnect, CapabilitiesTellTheTruthAndStay) {
  auto crew = connected(2);
  ASSERT_NE(crew, nullptr);
  for (int r = 0; r < 2; ++r) {
    Link& link = crew->link(r, 1 - r);
    const Capabilities& capabilities = link.capabilities();
    EXPECT_EQ(capabilities.mapped,
              link.mapped() != nullptr && link.mapped()->arena().data != nullptr);
    if (capabilities.all_memory || capabilities.single_copy) {
      EXPECT_NE(link.mapped(), nullptr);
    }
    EXPECT_TRUE(capabilities.mapped || link.stream() != nullptr) << "a link that can do nothing";
    EXPECT_EQ(&capabilities, &link.capabilities());
  }
  Link& there = crew->link(0, 1);
  Link& back = crew->link(1, 0);
  const Capabilities& left = there.capabilities();
  const Capabilities& right = back.capabilities();
  EXPECT_EQ(left.mapped, right.mapped);
  EXPECT_EQ(left.all_memory, right.all_memory);
  EXPECT_EQ(there.stream() != nullptr, back.stream() != nullptr);
}

TEST_P(TransportConnect, NobodyThereEndsAtTheDeadline) {
  auto crew = Crew::create(GetParam(), 2);
  ASSERT_NE(crew, nullptr);
  for (int r = 0; r < 2; ++r) {
    const uint64_t start_ns = monotonic_ns();
    const Status status = crew->connect_one(r, 1 - r, start_ns + 100'000'000);
    // A transport that needs no answer may well succeed.
    if (!status.ok()) {
      const std::string peer = "rank " + std::to_string(1 - r);
      EXPECT_NE(status.message().find(peer), std::string_view::npos) << status.message();
    }
    EXPECT_LT(monotonic_ns() - start_ns, 5'000'000'000u);
  }
}

/// Ranks 0 and 1 differ in something that must keep them apart.
void expect_strangers(const registry::TransportEntry& entry, const Adjust& adjust) {
  auto crew = Crew::create(entry, 2, adjust);
  // Where the card alone tells, refusing needs no connection.
  if (crew == nullptr) return;
  if (crew->connect_one(0, 1, monotonic_ns() + 1'000'000).ok()) {
    GTEST_SKIP() << entry.name << " makes no connection that could be refused";
  }
  Status statuses[2];
  const uint64_t deadline_ns = monotonic_ns() + 1'500'000'000;
  in_parallel(2, [&](int r) { statuses[r] = crew->connect_one(r, 1 - r, deadline_ns); });
  for (const Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(status.code() == Code::kRemoteError || status.code() == Code::kTimeout)
        << status.message();
  }
}

TEST_P(TransportConnect, AnotherKeyIsRefused) {
  expect_strangers(GetParam(), [](transport::Member& member) {
    if (member.rank == 1) member.key[31] ^= 1;
  });
}

TEST_P(TransportConnect, AnotherEpochIsRefused) {
  expect_strangers(GetParam(), [](transport::Member& member) {
    if (member.rank == 1) member.epoch += 1;
  });
}

TEST_P(TransportConnect, AnotherCommunicatorIsRefused) {
  expect_strangers(GetParam(), [](transport::Member& member) {
    if (member.rank == 1) member.communicator += 1;
  });
}

TUTTI_FOR_EVERY_TRANSPORT(TransportConnect);

}  // namespace
}  // namespace tutti::conformance
