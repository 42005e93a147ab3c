// Ranks that destroy their communicators in different orders: none waits for another that waits for
// it in another one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;

constexpr size_t kCommunicators = 16;  // each second of which took the 10 s of a destroy
constexpr uint64_t kLimitNs = 40'000'000'000;

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    if (!join()) return;
    std::vector<tuttiComm_t> made(kCommunicators, nullptr);
    for (tuttiComm_t& comm : made) {
      if (!ok(tuttiCommSplit(comm_, 0, member_.rank(), &comm, nullptr))) return;
    }
    for (tuttiComm_t comm : made) {
      if (!ok(testing_support::sum(comm, 10))) return;
    }
    for (size_t i = 0; i < kCommunicators; ++i) {
      const size_t at = member_.rank() % 2 == 0 ? i : kCommunicators - 1 - i;
      if (!ok(tuttiCommDestroy(made[at]))) return;
    }
    ok(tuttiCommDestroy(comm_));
  }
};

void leave_in_opposite_orders(int ranks, Network network) {
  const auto result = testing_support::run_team(
      testing_support::TeamShape::of(ranks, false, network),
      [](Member& member) { Rank(member).run(); },
      [](uint64_t) { return std::string("destroys in opposite orders"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(LeaveOrders, MayDifferOnOneHost) { leave_in_opposite_orders(2, Network::kDefault); }
TEST(LeaveOrders, MayDifferAmongThree) { leave_in_opposite_orders(3, Network::kDefault); }
TEST(LeaveOrders, MayDifferBetweenHosts) { leave_in_opposite_orders(2, Network::kTcp); }

}  // namespace
}  // namespace tutti::api_test
