#include "src/comm/meeting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace tutti::comm {
namespace {

/// One rank's view of two ranks of this host.
std::shared_ptr<Roster> roster_of(int rank, bootstrap::Listener listeners[2]) {
  auto roster = std::make_shared<Roster>();
  roster->rank = rank;
  for (int i = 0; i < 2; ++i) {
    roster->places.push_back(
        {"here", 1, bootstrap::Address::parse("127.0.0.1").value(), listeners[i].port});
  }
  roster->listener = std::move(listeners[rank].fd);
  return roster;
}

struct Two {
  Two() {
    bootstrap::Listener listeners[2];
    for (auto& one : listeners) {
      one = bootstrap::listen_on(bootstrap::Address::parse("127.0.0.1").value(), 0).value();
    }
    for (int rank = 0; rank < 2; ++rank) rosters[rank] = roster_of(rank, listeners);
  }
  std::shared_ptr<Roster> rosters[2];
};

constexpr uint64_t kOftenNs = 1'000'000;

// The looks disturb neither the meeting nor the next one.
TEST(Meeting, RanksMeetTwiceThoughTheyAreLookedForMeanwhile) {
  const Two two;
  const Meeting::Purpose purpose{"tuttiCommSplit", kNoDeadline, kOftenNs};
  std::thread late([&] {
    Meeting meeting(two.rosters[1], {0, 1}, purpose);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const char* blob : {"b", "d"}) EXPECT_TRUE(meeting.exchange(blob).ok());
  });
  Meeting meeting(two.rosters[0], {0, 1}, purpose);
  for (const char* blob : {"a", "c"}) {
    const auto blobs = meeting.exchange(blob);
    ASSERT_TRUE(blobs.ok()) << blobs.status().message();
    EXPECT_EQ(blobs.value()[0], blob);
  }
  late.join();
}

// No deadline ends these.
TEST(Meeting, WhoIsGoneIsNotWaitedFor) {
  for (const int gone : {0, 1}) {
    Two two;
    two.rosters[gone]->listener.reset();
    Meeting meeting(two.rosters[1 - gone], {0, 1}, {"tuttiCommSplit", kNoDeadline, kOftenNs});
    const auto blobs = meeting.exchange("");
    EXPECT_EQ(blobs.status().code(), Code::kRemoteError);
    const std::string wanted = "rank " + std::to_string(gone) + " (process 1 on here)";
    EXPECT_NE(blobs.status().message().find(wanted), std::string_view::npos)
        << blobs.status().message();
  }
}

// Whoever serves, and at whichever exchange.
TEST(Meeting, TheOthersAreToldWhoDeclines) {
  for (const int declines : {0, 1}) {
    const Two two;
    const Meeting::Purpose purpose{"tuttiCommSplit", kNoDeadline, kOftenNs};
    std::thread other([&] {
      Meeting meeting(two.rosters[declines], {0, 1}, purpose);
      EXPECT_TRUE(meeting.exchange("").ok());
      meeting.decline();
    });
    Meeting meeting(two.rosters[1 - declines], {0, 1}, purpose);
    EXPECT_TRUE(meeting.exchange("").ok());
    const auto blobs = meeting.exchange("");
    EXPECT_EQ(blobs.status().code(), Code::kRemoteError) << blobs.status().message();
    other.join();
  }
}

}  // namespace
}  // namespace tutti::comm
