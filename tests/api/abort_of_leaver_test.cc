// A destroy that waits for the other ranks is aborted by another thread. It waits no longer, and
// they learn of it: who waits for another rank, and who is in no call.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 240'000'000'000;
constexpr uint64_t kLeaveNs = 10'000'000'000;  // a rank that leaves waits so long for the others
constexpr uint64_t kPollNs = 1'000'000;
constexpr std::chrono::minutes kPatience{1};

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const TeamShape& shape) : TeamRank(member), shape_(shape) {}

  void run(uint64_t delay_ns) {
    // Only the last rank of a process waits for others, so this one's neighbours leave first.
    if (!join() || !ok(tuttiBarrier(comm_, tuttiBlocking()))) return;
    const bool beside = process_of(member_.rank()) == process_of(0);
    if (beside && member_.rank() > 0 && !ok(tuttiCommDestroy(comm_))) return;
    if (!member_.meet()) return;
    if (member_.rank() == 0) {
      leave_and_abort(delay_ns);
    } else if (!beside) {
      be_told();
      (void)tuttiCommAbort(comm_);
    }
  }

 private:
  int process_of(int rank) const { return shape_.process_of[static_cast<size_t>(rank)]; }

  void leave_and_abort(uint64_t delay_ns) {
    tuttiResult_t left = tuttiInProgress;
    std::thread leaving([&] { left = tuttiCommDestroy(comm_); });
    int count = 0;
    while (tuttiCommCount(comm_, &count) == tuttiSuccess) std::this_thread::yield();
    testing_support::sleep_ns(delay_ns);
    const uint64_t aborted_at_ns = testing_support::now_ns();
    if (tuttiCommAbort(comm_) != tuttiInvalidUsage) member_.fail("the end is the destroy's");
    leaving.join();
    if (left != tuttiSuccess) member_.fail(tuttiGetLastError(comm_));
    const bool waited = testing_support::now_ns() - aborted_at_ns > kLeaveNs / 2;
    if (waited) member_.fail("it waited although it was aborted");
  }

  void be_told() {
    const int last = member_.ranks() - 1;
    tuttiResult_t error = tuttiSuccess;
    if (member_.rank() == last) {
      const auto until = std::chrono::steady_clock::now() + kPatience;
      while (error == tuttiSuccess && std::chrono::steady_clock::now() < until) {
        if (!ok(tuttiCommGetAsyncError(comm_, &error))) return;
        testing_support::sleep_ns(kPollNs);
      }
    } else {
      float value = 0;
      error = tuttiRecv(&value, 1, tuttiFloat32, last, comm_, tuttiBlocking());
    }
    const std::string message = tuttiGetLastError(comm_);
    if (error != tuttiRemoteError || message.find("rank 0") == std::string::npos) {
      member_.fail("it was not told: " + std::to_string(error) + " " + message);
    }
  }

  const TeamShape& shape_;
};

void abort_a_leaver(TeamShape shape, Network network) {
  shape.use(network);
  shape.set("TUTTI_TIMEOUT", "60");  // so that the test ends where nobody is told
  // It may be on its way to where it waits, or there.
  for (const uint64_t delay_ns : {0, 1'000'000, 100'000'000}) {
    const auto result = testing_support::run_team(
        shape, [&](Member& member) { Rank(member, shape).run(delay_ns); },
        [](uint64_t) { return std::string("the test"); }, kLimitNs);
    EXPECT_TRUE(result.ok) << testing_support::name_of(network) << ", " << delay_ns
                           << " ns: " << result.report;
  }
}

class AbortOfLeaver : public testing::TestWithParam<Network> {};

TEST_P(AbortOfLeaver, IsTold) { abort_a_leaver(TeamShape::processes(4), GetParam()); }

TEST_P(AbortOfLeaver, WithRanksBesideIt) {
  TeamShape shape;
  shape.process_of = {0, 0, 1, 1};
  abort_a_leaver(shape, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Every, AbortOfLeaver,
                         testing::Values(Network::kDefault, Network::kTcp, Network::kMixed),
                         [](const auto& info) { return testing_support::name_of(info.param); });

}  // namespace
}  // namespace tutti::api_test
