#include "tools/topology/rounds.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace tutti::topology {
namespace {

TEST(Rounds, EveryTwoMeetOnceAndNobodyMeetsTwoInARound) {
  for (uint32_t n = 0; n <= 17; ++n) {
    std::set<std::pair<uint32_t, uint32_t>> met;
    for (uint32_t round = 0; round < rounds_for(n); ++round) {
      for (uint32_t host = 0; host < n; ++host) {
        const uint32_t partner = partner_of(host, round, n);
        ASSERT_LT(partner, n);
        EXPECT_EQ(partner_of(partner, round, n), host) << n << " hosts, round " << round;
        if (partner <= host) continue;
        EXPECT_TRUE(met.emplace(host, partner).second) << n << " hosts: " << host << " " << partner;
      }
    }
    EXPECT_EQ(met.size(), n < 2 ? 0 : n * (n - 1) / 2);
    if (n > 1) {
      EXPECT_EQ(rounds_for(n), n % 2 == 0 ? n - 1 : n);
    }
  }
}

}  // namespace
}  // namespace tutti::topology
