// Ranks whose calls differ: each is told both calls, and in what they differ.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/sanitizer.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;

constexpr int kRanks = 3;
constexpr int kOdd = kRanks - 1;
constexpr size_t kCount = 1000;
constexpr size_t kLong = size_t{4} << 20;

enum class Difference { kCount, kCollective, kTypeAndOperation, kRoot, kEarlierRoot };

struct Expectation {
  std::string usual, odd, field;
};

Expectation expectation_of(Difference difference) {
  switch (difference) {
    case Difference::kCount:
      return {"all_reduce of 1000 float sum", "all_reduce of 500 float sum", ": count; "};
    case Difference::kCollective:
      return {"all_reduce of 1000 float sum", "broadcast of 1000 float, root 1", ": collective; "};
    case Difference::kTypeAndOperation:
      return {"all_reduce of 1000 float sum", "all_reduce of 1000 int32 max",
              ": type, operation; "};
    case Difference::kRoot:
      return {"scatter of 4194304 float, root 0", "scatter of 4194304 float, root 2", ": root; "};
    case Difference::kEarlierRoot:
      return {"broadcast of 1000 float, root 0", "broadcast of 1000 float, root 2", ": root; "};
  }
  return {};
}

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, Difference difference) : TeamRank(member), difference_(difference) {}

  void run() {
    if (!join() || !ok(tuttiBarrier(comm_, tuttiBlocking()))) return;
    for (int i = 0; i < 3; ++i) {  // so that what differs is no rank's first call
      if (!ok(testing_support::sum(comm_, kCount))) return;
    }
    if (call() == tuttiSuccess) {
      // Two roots that nobody else waits for: no message of that call shows it.
      const bool is_next = difference_ == Difference::kEarlierRoot;
      if (!is_next || tuttiBarrier(comm_, tuttiBlocking()) == tuttiSuccess) {
        member_.fail("no error");
      }
    }
    check(tuttiGetLastError(comm_));
    member_.meet();
    tuttiCommAbort(comm_);
  }

 private:
  tuttiResult_t call() {
    const bool odd = member_.rank() == kOdd;
    const size_t room = difference_ == Difference::kRoot ? kRanks * kLong : kCount;
    std::vector<float> send(room), recv(room);
    float* const from = send.data();
    float* const to = recv.data();
    const int root = odd ? kOdd : 0;
    switch (difference_) {
      case Difference::kRoot:
        return tuttiScatter(from, to, kLong, tuttiFloat32, root, comm_, tuttiBlocking());
      case Difference::kEarlierRoot:
        return tuttiBroadcast(from, to, kCount, tuttiFloat32, root, comm_, tuttiBlocking());
      case Difference::kCollective:
        if (!odd) break;
        return tuttiBroadcast(from, to, kCount, tuttiFloat32, 1, comm_, tuttiBlocking());
      case Difference::kCount:
        if (!odd) break;
        return tuttiAllReduce(from, to, kCount / 2, tuttiFloat32, tuttiSum, comm_, tuttiBlocking());
      case Difference::kTypeAndOperation:
        if (!odd) break;
        return tuttiAllReduce(from, to, kCount, tuttiInt32, tuttiMax, comm_, tuttiBlocking());
    }
    return tuttiAllReduce(from, to, kCount, tuttiFloat32, tuttiSum, comm_, tuttiBlocking());
  }

  // A rank looks for some time itself before it says what another one has found. Under a sanitizer
  // that may be too short.
  bool is_hearsay(const std::string& said) const {
    return testing_support::kSanitized && member_.rank() != kOdd &&
           said.find("gave up because the calls of rank " + std::to_string(kOdd)) != said.npos;
  }

  void check(const std::string& said) {
    if (is_hearsay(said)) return;
    const Expectation wanted = expectation_of(difference_);
    for (const std::string& part : {wanted.usual, wanted.odd, wanted.field}) {
      if (said.find(part) == std::string::npos) member_.fail("no '" + part + "' in: " + said);
    }
  }

  const Difference difference_;
};

void differ(Difference difference, Network network) {
  constexpr uint64_t kLimitNs = 60'000'000'000;
  auto shape = testing_support::TeamShape::of(kRanks, false, network);
  shape.set("TUTTI_LOG", "off");
  const auto result = testing_support::run_team(
      shape, [=](Member& member) { Rank(member, difference).run(); },
      [](uint64_t) { return std::string("a call that differs"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(MismatchText, NamesCounts) { differ(Difference::kCount, Network::kDefault); }
TEST(MismatchText, NamesCollectives) { differ(Difference::kCollective, Network::kDefault); }
TEST(MismatchText, NamesTypesAndOperations) {
  differ(Difference::kTypeAndOperation, Network::kDefault);
}
TEST(MismatchText, NamesRootsThatTheCallItselfShows) {
  differ(Difference::kRoot, Network::kDefault);
}
TEST(MismatchText, NamesRootsThatTheNextCallShows) {
  differ(Difference::kEarlierRoot, Network::kDefault);
}
TEST(MismatchText, NamesCountsBetweenHosts) { differ(Difference::kCount, Network::kTcp); }
TEST(MismatchText, NamesTypesAndOperationsBetweenHosts) {
  differ(Difference::kTypeAndOperation, Network::kTcp);
}

}  // namespace
}  // namespace tutti::api_test
