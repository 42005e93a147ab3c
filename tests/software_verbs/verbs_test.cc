// Links over RDMA cards that are software: what is asked of cards, and what they do wrong.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"
#include "transports/verbs/functions.h"

namespace tutti::software_verbs {
namespace {

using conformance::Crew;
using conformance::drive;
using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;

constexpr ChannelId kChannel{conformance::kCommunicator, 1, 0};
constexpr registry::TransportEntry kEntry{"verbs", &make};

class SoftwareVerbs : public testing::Test {
 protected:
  std::unique_ptr<Crew> crew(int ranks = 2) {
    auto made = Crew::create(kEntry, ranks);
    if (made == nullptr) return nullptr;
    const Status status = made->connect_all();
    EXPECT_TRUE(status.ok()) << status.message();
    return status.ok() ? std::move(made) : nullptr;
  }
  void TearDown() override {
    cut(0, false);
    plant_broken_queues(false);
    plant_registration_error(0);
    plant_opening_error(0);
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  /// The error of rank 0 once its link has failed.
  std::string failure(Crew& crew) {
    Link& link = crew.link(0, 1);
    const std::vector<std::byte> data(64);
    const ConstBuffer piece{data.data(), data.size()};
    link.stream()->send(kChannel, 1, {&piece, 1});
    EXPECT_FALSE(drive(link, [&] {
      crew.link(1, 0).stream()->progress();
      return false;
    }));
    return std::string(link.status().message());
  }
  std::string absence() {
    transport::Member member = conformance::make_member(0, 2, conformance::Distance::kHosts);
    const auto made = make(member);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? made.value()->absence(made.value()->card()) : "";
  }
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A send that finds no receive would be repeated by the card, later and later.
TEST_F(SoftwareVerbs, NothingIsSentForWhichThePeerHasNoReceive) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  const uint64_t waits = counts().waits;
  constexpr size_t kMessages = 3000;
  std::vector<std::vector<std::byte>> source(kMessages), target[2];
  for (size_t i = 0; i < kMessages; ++i) source[i] = conformance::pattern(i % 700, unsigned(i));
  for (auto& each : target) each = source;
  conformance::in_parallel(2, [&](int r) {
    Link& link = crew->link(r, 1 - r);
    transport::Stream::Ticket sent = 0, received = 0;
    for (size_t i = 0; i < kMessages; ++i) {
      auto& into = target[r][i];
      std::fill(into.begin(), into.end(), std::byte{0});
      const Buffer to{into.data(), into.size()};
      const ConstBuffer from{source[i].data(), source[i].size()};
      received = link.stream()->receive(kChannel, 1, {&to, 1});
      sent = link.stream()->send(kChannel, 1, {&from, 1});
    }
    EXPECT_TRUE(drive(link, [&] { return link.stream()->sent(sent); }));
    EXPECT_TRUE(drive(link, [&] { return link.stream()->received(received); }));
  });
  EXPECT_EQ(target[0], source);
  EXPECT_EQ(target[1], source);
  EXPECT_EQ(counts().waits, waits);
}

TEST_F(SoftwareVerbs, APortThatReachesNobodyEndsTheLinkAndIsNamedWithTheStatus) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  cut(0, true);
  const std::string text = failure(*crew);
  EXPECT_TRUE(has(text, "rank 0 lost rank 1")) << text;
  EXPECT_TRUE(has(text, "soft0:1")) << text;
  EXPECT_TRUE(has(text, "transport retry counter exceeded (status 12")) << text;
  EXPECT_TRUE(has(text, "TUTTI_RDMA_TIMEOUT")) << text;
  Link& other = crew->link(1, 0);
  EXPECT_FALSE(drive(other, [] { return false; }));
  EXPECT_EQ(other.status().code(), Code::kRemoteError);
}

TEST_F(SoftwareVerbs, WhatACardHasToldOfItselfIsInTheError) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  tell(transports::verbs::api::kEventPortError, 1);
  for (int r = 0; r < 2; ++r) crew->rank(r).transport->serve();
  cut(0, true);
  const std::string text = failure(*crew);
  EXPECT_TRUE(has(text, "RDMA port soft0:1 has told of itself: port error")) << text;
}

TEST_F(SoftwareVerbs, APortThatIsDownAloneEndsNothing) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  tell(transports::verbs::api::kEventPortError, 1);
  for (int r = 0; r < 2; ++r) crew->rank(r).transport->serve();
  for (int i = 0; i < 100; ++i) crew->link(0, 1).stream()->progress();
  EXPECT_TRUE(crew->link(0, 1).status().ok()) << crew->link(0, 1).status().message();
}

TEST_F(SoftwareVerbs, ADeadCardEndsItsLinks) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  tell(transports::verbs::api::kEventDeviceFatal, 0);
  crew->rank(0).transport->serve();
  EXPECT_FALSE(drive(crew->link(0, 1), [] { return false; }));
  EXPECT_TRUE(has(std::string(crew->link(0, 1).status().message()), "soft0:1"));
}

TEST_F(SoftwareVerbs, ABrokenCompletionQueueEndsTheLink) {
  auto crew = this->crew();
  ASSERT_NE(crew, nullptr);
  plant_broken_queues(true);
  const std::string text = failure(*crew);
  EXPECT_TRUE(has(text, "completion queue of RDMA port soft0:1 is broken")) << text;
}

TEST_F(SoftwareVerbs, MemoryThatMayNotBeLockedNamesTheLimit) {
  plant_registration_error(ENOMEM);
  auto crew = Crew::create(kEntry, 2);
  ASSERT_NE(crew, nullptr);
  const Status status = crew->connect_all();
  EXPECT_TRUE(has(std::string(status.message()), "cannot register")) << status.message();
  EXPECT_TRUE(has(std::string(status.message()), "Cannot allocate memory")) << status.message();
}

TEST_F(SoftwareVerbs, ACardThatMayNotBeOpenedSaysWhatIsMissing) {
  plant_opening_error(EACCES);
  const std::string text = absence();
  EXPECT_TRUE(has(text, "RDMA card soft0 cannot be opened: Permission denied")) << text;
  EXPECT_TRUE(has(text, "/dev/infiniband/uverbs*")) << text;
  EXPECT_EQ(Crew::create(kEntry, 2), nullptr) << "it reaches nobody";
}

TEST_F(SoftwareVerbs, AnAddressThatThePortLacksIsNamed) {
  transport::Member member = conformance::make_member(0, 2, conformance::Distance::kHosts);
  member.rdma.gid_index = 77;
  const auto made = make(member);
  ASSERT_TRUE(made.ok());
  const std::string text = made.value()->absence(made.value()->card());
  EXPECT_TRUE(has(text, "no address (GID) of index 77 (TUTTI_RDMA_GID_INDEX)")) << text;
  member.rdma.gid_index = 0;
  const auto other = make(member);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(has(other.value()->card(), " ipv6 ")) << other.value()->card();
  EXPECT_EQ(absence(), "");
}

TEST_F(SoftwareVerbs, RanksOfDifferentFabricsDoNotReachEachOther) {
  EXPECT_EQ(Crew::create(kEntry, 2,
                         [](transport::Member& member) {
                           member.rdma.fabric = member.rank == 0 ? "blue" : "red";
                         }),
            nullptr);
}

}  // namespace
}  // namespace tutti::software_verbs
