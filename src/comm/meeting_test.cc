#include "src/comm/meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

/// Each rank's view of ranks of this host.
template <int kRanks>
struct Crowd {
  Crowd() {
    bootstrap::Listener listeners[kRanks];
    std::vector<RankAddress> places;
    for (auto& one : listeners) {
      const auto address = bootstrap::Address::parse("127.0.0.1").value();
      one = bootstrap::listen_on(address, 0).value();
      places.push_back({"here", 1, address, one.port});
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      rosters[rank] = std::make_shared<Roster>();
      rosters[rank]->rank = rank;
      rosters[rank]->places = places;
      rosters[rank]->listener = std::move(listeners[rank].fd);
    }
  }
  std::shared_ptr<Roster> rosters[kRanks];
};
using Two = Crowd<2>;
using Three = Crowd<3>;

constexpr uint64_t kOftenNs = 1'000'000;

// A rank that waits in vain fails the test, and does not hang it.
uint64_t in_a_minute() { return monotonic_ns() + 60 * kNanosecondsPerSecond; }

// The looks disturb neither the meeting nor the next one.
TEST(Meeting, RanksMeetTwiceThoughTheyAreLookedForMeanwhile) {
  const Two two;
  const Meeting::MeetingPurpose purpose{"tuttiCommSplit", in_a_minute(), kOftenNs};
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
    Meeting meeting(two.rosters[1 - gone], {0, 1}, {"tuttiCommSplit", in_a_minute(), kOftenNs});
    const auto blobs = meeting.exchange("");
    EXPECT_EQ(blobs.status().code(), Code::kRemoteError);
    const std::string wanted = "rank " + std::to_string(gone) + " (process 1 on here)";
    EXPECT_NE(blobs.status().message().find(wanted), std::string_view::npos)
        << blobs.status().message();
  }
}

// A host that does not answer hides nobody behind it.
TEST(Meeting, WhoIsGoneIsFoundBehindOneThatDoesNotAnswer) {
  Three three;
  ASSERT_EQ(listen(three.rosters[1]->listener.get(), 0), 0);
  std::vector<Result<KeptFd>> callers;  // until the kernel leaves further ones unanswered
  for (int i = 0; i < 4; ++i) {
    const RankAddress& silent = three.rosters[0]->places[1];
    callers.push_back(bootstrap::dial(silent.address, silent.port, deadline_after(50 * kOftenNs)));
  }
  ASSERT_EQ(callers.back().status().code(), Code::kTimeout);
  three.rosters[2]->listener.reset();
  Meeting meeting(three.rosters[0], {0, 1, 2}, {"tuttiCommSplit", in_a_minute(), kOftenNs});
  const auto blobs = meeting.exchange("");
  EXPECT_EQ(blobs.status().code(), Code::kRemoteError);
  EXPECT_NE(blobs.status().message().find("rank 2 (process 1 on here) is gone"),
            std::string_view::npos)
      << blobs.status().message();
}

// Any rank may serve, and any exchange may be the one that is declined.
TEST(Meeting, TheOthersAreToldWhoDeclines) {
  for (const int declines : {0, 1}) {
    const Two two;
    const Meeting::MeetingPurpose purpose{"tuttiCommSplit", in_a_minute(), kOftenNs};
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

// It is in the same place with the same key, and counts itself among the members.
TEST(Meeting, WhoIsLeftOutIsToldAndDisturbsNobody) {
  const Three three;
  const Meeting::MeetingPurpose shrink{"tuttiCommShrink", in_a_minute()};
  std::thread serves([&] {
    const auto blobs = Meeting(three.rosters[0], {0, 1}, shrink).exchange("a");
    ASSERT_TRUE(blobs.ok()) << blobs.status().message();
    EXPECT_EQ(blobs.value(), (std::vector<std::string>{"a", "b"}));
  });
  Meeting left_out(three.rosters[2], {0, 1, 2}, {"tuttiCommSplit", in_a_minute()});
  const auto refused = left_out.exchange("c");
  EXPECT_EQ(refused.status().code(), Code::kInvalidUsage);
  EXPECT_NE(refused.status().message().find("leave rank 2 out"), std::string_view::npos)
      << refused.status().message();
  left_out.decline();
  const auto blobs = Meeting(three.rosters[1], {0, 1}, shrink).exchange("b");
  EXPECT_TRUE(blobs.ok()) << blobs.status().message();
  serves.join();
}

// One rank knows that the others cannot come to what the other one still waits for, and goes on.
TEST(Meeting, WhoComesToTheNextOccasionWaitsUntilTheOthersDo) {
  for (const int early : {0, 1}) {
    const Two two;
    Meeting::MeetingPurpose next{"tuttiCommShrink", in_a_minute()};
    next.meeting_number = 1;
    std::atomic<bool> in_next = false;
    std::thread other([&] {
      in_next = true;
      const auto blobs = Meeting(two.rosters[early], {0, 1}, next).exchange("early");
      EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    });
    Meeting::MeetingPurpose last{"tuttiCommSplit", in_a_minute()};
    int asked = 0;
    last.sense = [&] {  // long enough for the other one to come
      if (in_next) ++asked;
      return asked < 4 ? Status() : Status::remote_error("rank 7 is gone");
    };
    const auto ended = Meeting(two.rosters[1 - early], {0, 1}, last).exchange("");
    EXPECT_EQ(ended.status().code(), Code::kRemoteError);
    EXPECT_NE(ended.status().message().find("rank 7 is gone"), std::string_view::npos)
        << ended.status().message();
    const auto blobs = Meeting(two.rosters[1 - early], {0, 1}, next).exchange("late");
    ASSERT_TRUE(blobs.ok()) << blobs.status().message();
    EXPECT_EQ(blobs.value()[static_cast<size_t>(early)], "early");
    other.join();
  }
}

// In the turn of the server in which somebody has come to another meeting, somebody else ends this
// one; what is answered to one is not taken for the other's.
TEST(Meeting, AFailureLeavesStrangersAlone) {
  for (int round = 0; round < 50; ++round) {
    const Three three;
    Meeting::MeetingPurpose next{"tuttiCommShrink", in_a_minute()};
    next.meeting_number = 1;
    std::thread early([&] {
      const auto blobs = Meeting(three.rosters[1], {0, 1}, next).exchange("1");
      EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    });
    const auto expect_refused = [&](int rank, const std::vector<int>& members) {
      Meeting meeting(three.rosters[rank], members, {"tuttiCommSplit", in_a_minute()});
      EXPECT_EQ(meeting.exchange("").status().code(), Code::kInvalidUsage);
    };
    std::thread mistaken([&] { expect_refused(2, {0, 2}); });
    expect_refused(0, {0, 1, 2});
    mistaken.join();
    const auto blobs = Meeting(three.rosters[0], {0, 1}, next).exchange("0");
    EXPECT_TRUE(blobs.ok()) << blobs.status().message();
    early.join();
  }
}

// Each waits for the other in another meeting, and nothing ends either of them.
TEST(Meeting, WhoComesToAnotherOccasionByMistakeTakesPartInTheEnd) {
  const Two two;
  Meeting::MeetingPurpose other{"tuttiCommShrink", in_a_minute()};
  other.meeting_number = 1;
  std::thread mistaken([&] {
    const auto blobs = Meeting(two.rosters[1], {0, 1}, other).exchange("shrink");
    EXPECT_TRUE(blobs.ok()) << blobs.status().message();
  });
  const auto blobs =
      Meeting(two.rosters[0], {0, 1}, {"tuttiCommSplit", in_a_minute()}).exchange("split");
  ASSERT_TRUE(blobs.ok()) << blobs.status().message();
  EXPECT_EQ(blobs.value(), (std::vector<std::string>{"split", "shrink"}));
  mistaken.join();
}

// A rank that only one of them waits for never comes: both are told at once.
TEST(Meeting, RanksThatLeaveOutOthers) {
  const Three three;
  const Meeting::MeetingPurpose purpose{"tuttiCommShrink", in_a_minute()};
  const auto expect_refused = [&](int rank, const std::vector<int>& members) {
    const auto blobs = Meeting(three.rosters[rank], members, purpose).exchange("");
    EXPECT_EQ(blobs.status().code(), Code::kInvalidUsage);
    EXPECT_NE(blobs.status().message().find("leaves other ranks out"), std::string_view::npos)
        << blobs.status().message();
  };
  std::thread other([&] { expect_refused(1, {0, 1}); });
  expect_refused(0, {0, 1, 2});
  other.join();
}

}  // namespace
}  // namespace tutti::comm
