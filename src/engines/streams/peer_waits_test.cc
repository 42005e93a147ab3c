#include "src/engines/streams/peer_waits.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tutti::engines::streams {
namespace {

TEST(PeerWaits, AChainEndsAtTheRankThatWaitsForNobody) {
  const std::vector<PeerWait> waits = {{5, 2, 9}, {7, 0, 9}, {5, std::nullopt, 9}, {7, 1, 9}};
  for (int from = 0; from < 4; ++from) EXPECT_EQ(follow_waits(from, waits), 2) << from;
}

TEST(PeerWaits, AWaitForARankThatIsPastTheCallIsOld) {
  const std::vector<PeerWait> waits = {{5, 1, 9}, {6, 2, 9}, {6, std::nullopt, 9}};
  EXPECT_EQ(follow_waits(0, waits), 0);
  EXPECT_EQ(follow_waits(1, waits), 2);
}

TEST(PeerWaits, NumbersWrap) {
  const std::vector<PeerWait> waits = {{0, 1, 9}, {~uint32_t{0}, std::nullopt, 9}};
  EXPECT_EQ(follow_waits(0, waits), 1);
}

TEST(PeerWaits, InACircleTheOneThatHasStoppedLooking) {
  constexpr uint64_t kS = 1'000'000'000;
  const std::vector<PeerWait> waits = {{5, 1, 8 * kS}, {5, 2, 3 * kS}, {5, 1, 9 * kS}, {6, 0, kS}};
  EXPECT_EQ(follow_waits(0, waits), 1);
  EXPECT_EQ(follow_waits(3, waits), 1);  // it is not in the circle, however long it has not looked
}

TEST(PeerWaits, InACircleOfWhichAllLookNobodyIsBlamedForBeingTheFirst) {
  const std::vector<PeerWait> waits = {{5, 1, 80}, {5, 2, 30}, {5, 1, 90}, {6, 0, 10}};
  for (int from = 0; from < 4; ++from) EXPECT_EQ(follow_waits(from, waits), from);
}

TEST(PeerWaits, WordsSayWhatWasToldAndNothingOfUnknownRanks) {
  const auto page = std::make_unique<exec::DevicePage>();
  EXPECT_FALSE(PeerWait::read(*page, 4).peer);
  PeerWait{.number = 3, .peer = 2, .looked_ns = 11}.tell(*page);
  const PeerWait wait = PeerWait::read(*page, 4);
  EXPECT_EQ(wait.number, 3u);
  EXPECT_EQ(wait.peer, 2);
  EXPECT_EQ(wait.looked_ns, 11u);
  EXPECT_FALSE(PeerWait::read(*page, 2).peer);
}

}  // namespace
}  // namespace tutti::engines::streams
