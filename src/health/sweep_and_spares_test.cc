// NodeSweep's monitor and pairs, exhaustively up to 16 hosts; spares by formula and by simulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "src/base/prng.h"
#include "src/health/pair_sweep.h"
#include "src/health/peer_monitor.h"
#include "src/health/spares.h"

namespace tutti::health {
namespace {

std::vector<SignalSample> samples_of(Prng& random, uint64_t window, double all, double own) {
  std::vector<SignalSample> samples;
  for (uint32_t rank = 0; rank < 64; ++rank) {
    const double jitter = 0.99 + 0.02 * random.unit();
    samples.push_back({100 * jitter * all * (rank == 17 ? own : 1), window});
  }
  return samples;
}

TEST(PeerMonitorTest, FindsTheSlowOneWithinItsWindowsAndNobodyElse) {
  Prng random(1);
  PeerMonitor monitor = PeerMonitor::make(64, 1).value();
  uint64_t window = 0;
  for (; window < 100'000; ++window) {
    ASSERT_TRUE(monitor.add(window, samples_of(random, window, 1, 1)).value().empty()) << window;
  }
  for (uint64_t slow = 0; slow < 10; ++slow, ++window) {
    const auto suspects = monitor.add(window, samples_of(random, window, 1, 1.08)).value();
    ASSERT_EQ(suspects, slow == 9 ? std::vector<uint32_t>{17} : std::vector<uint32_t>{});
  }
  // A cause that slows all is nobody's fault.
  for (uint64_t slow = 0; slow < 100; ++slow, ++window) {
    ASSERT_TRUE(monitor.add(window, samples_of(random, window, 3, 1)).value().empty());
  }
}

TEST(PeerMonitorTest, WantsTwoSignalsWhereThereAreTwo) {
  PeerMonitor monitor = PeerMonitor::make(4, 2, {.windows = 2}).value();
  const auto add = [&](uint64_t window, double first, double second) {
    std::vector<SignalSample> samples(8, {10, window});
    samples[2].value = first;
    samples[3].value = second;
    return monitor.add(window, samples).value();
  };
  for (uint64_t window = 0; window < 5; ++window) EXPECT_TRUE(add(window, 20, 10).empty());
  EXPECT_TRUE(add(5, 20, 20).empty());
  EXPECT_EQ(add(6, 20, 20), std::vector<uint32_t>{1});
}

TEST(PeerMonitorTest, RefusesTooFewPeersAndOldSamples) {
  EXPECT_FALSE(PeerMonitor::make(3, 1).ok());
  EXPECT_FALSE(PeerMonitor::make(4, 0).ok());
  EXPECT_FALSE(PeerMonitor::make(4, 1, {.floor = 0}).ok());
  PeerMonitor monitor = PeerMonitor::make(4, 1).value();
  EXPECT_TRUE(monitor.add(10, std::vector<SignalSample>(4, {1, 8})).ok());
  EXPECT_FALSE(monitor.add(11, std::vector<SignalSample>(4, {1, 8})).ok());
  EXPECT_FALSE(monitor.add(10, std::vector<SignalSample>(4, {1, 10})).ok());
  EXPECT_FALSE(monitor.add(12, std::vector<SignalSample>(3, {1, 12})).ok());
}

void measure(std::vector<SweepPair>& pairs, uint32_t bad) {
  for (SweepPair& pair : pairs) {
    const bool slow = ((bad >> pair.one | bad >> pair.other) & 1) != 0;
    pair.rate = slow ? 8.0 : 10.0 + 0.1 * (pair.one % 3);
  }
}

std::vector<uint32_t> hosts_of(uint32_t set, uint32_t hosts) {
  std::vector<uint32_t> found;
  for (uint32_t host = 0; host < hosts; ++host) {
    if ((set >> host & 1) != 0) found.push_back(host);
  }
  return found;
}

TEST(PairSweepTest, FindsEverySetOfUpToAQuarterOfBadHosts) {
  for (uint32_t hosts = 4; hosts <= 16; ++hosts) {
    for (uint32_t bad = 0; bad < 1u << hosts; ++bad) {
      const auto count = static_cast<uint32_t>(std::popcount(bad));
      if (count > hosts / 4) continue;
      std::vector<SweepPair> first = first_round(hosts);
      measure(first, bad);
      auto second = second_round(hosts, first);
      ASSERT_TRUE(second.ok()) << hosts << " " << bad;
      measure(second.value(), bad);
      ASSERT_EQ(bad_hosts(first, second.value()), hosts_of(bad, hosts)) << hosts << " " << bad;
      ASSERT_LE(first.size() + second.value().size(), hosts / 2 + 2 * count + hosts % 2);
    }
  }
}

TEST(PairSweepTest, AllPairsTellHostsFromPaths) {
  std::vector<SweepPair> pairs;
  for (uint32_t one = 0; one < 8; ++one) {
    for (uint32_t other = one + 1; other < 8; ++other) {
      const bool slow = one == 3 || other == 3 || (one == 1 && other == 6);
      pairs.push_back({one, other, slow ? 5.0 : 10.0});
    }
  }
  const AllPairsFinding finding = judge_pairs(8, pairs);
  EXPECT_EQ(finding.hosts, std::vector<uint32_t>{3});
  ASSERT_EQ(finding.pairs.size(), 1u);
  EXPECT_EQ(finding.pairs[0].one, 1u);
  EXPECT_EQ(finding.pairs[0].other, 6u);
}

TEST(PairSweepTest, MissingEvidenceClearsNobody) {
  std::vector<SweepPair> first = first_round(8);
  measure(first, 0);
  first[1].rate.reset();
  auto second = second_round(8, first);
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second.value().size(), 2u);
  EXPECT_EQ(bad_hosts(first, second.value()), (std::vector<uint32_t>{2, 3}));
  EXPECT_FALSE(second_round(3, first_round(3)).ok());
  for (SweepPair& pair : first) pair.rate.reset();
  EXPECT_FALSE(second_round(8, first).ok());
}

// The numbers of communication_systems, section 9.
TEST(SparesTest, ClosedFormsHaveTheKnownValues) {
  const auto block = [](uint32_t trays, uint32_t spare) {
    return predict({.trays = trays, .spare_trays = spare}).value().block;
  };
  EXPECT_NEAR(block(72, 0), 0.70838, 1e-5);
  EXPECT_NEAR(block(18, 2), 0.99992, 1e-5);
  EXPECT_NEAR(block(18, 0), 0.91742, 1e-5);
  EXPECT_NEAR(1 - block(72, 8), 1e-10, 1e-10);
  const double known[] = {0.2260, 0.0278, 0.00234};
  for (uint32_t spare = 0; spare < 3; ++spare) {
    const double down = 1 - at_most_failed(256 + spare, spare, 1e-3);
    EXPECT_NEAR(down / known[spare], 1, 0.01) << spare;
  }
  EXPECT_NEAR((1 - at_most_failed(260, 4, 1e-3)) / 8e-6, 1, 0.1);
  EXPECT_NEAR(young_interval_s(2.7 * 3600, 60), 1080, 0.5);
  EXPECT_NEAR(daly_interval_s(2.7 * 3600, 60), 1040, 1);
}

TEST(SparesTest, SimulationIsWithinOnePercentOfTheClosedForms) {
  for (const SpareModel& model :
       {SpareModel{.zones = 2, .blocks = 8, .trays = 72},
        SpareModel{.zones = 4, .blocks = 32, .spare_blocks = 1, .trays = 18, .spare_trays = 2},
        SpareModel{.zones = 1, .blocks = 24, .spare_blocks = 4, .trays = 18}}) {
    const SparePrediction predicted = predict(model).value();
    const SpareSimulation simulated = simulate_spares(model, 3, 400'000).value();
    EXPECT_GE(simulated.failures, 100'000u);
    EXPECT_NEAR(simulated.block / predicted.block, 1, 0.01);
    if (predicted.running > 0.1) {
      EXPECT_NEAR(simulated.running / predicted.running, 1, 0.01);
    }
  }
}

TEST(SparesTest, MoreSparesRunMoreAndCostMore) {
  SpareModel model{.zones = 4, .blocks = 64, .trays = 18, .spare_trays = 1};
  double before = 0;
  for (model.spare_blocks = 0; model.spare_blocks < 12; ++model.spare_blocks) {
    const SparePrediction made = predict(model).value();
    EXPECT_GE(made.running, before);
    before = made.running;
  }
  const SpareModel best = best_spares(model, 16, 4).value();
  EXPECT_GT(best.spare_blocks + best.spare_trays, 0u);
  EXPECT_LT(best.spare_blocks, 16u);
  EXPECT_EQ(best.trays - best.spare_trays, 17u);
}

TEST(SparesTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(predict({.trays = 4, .spare_trays = 4}).ok());
  EXPECT_FALSE(predict({.failure_hours = -1}).ok());
  EXPECT_FALSE(predict({.failure_hours = std::numeric_limits<double>::infinity()}).ok());
  EXPECT_FALSE(predict({.checkpoint_s = 60, .interval_s = 60}).ok());
  EXPECT_FALSE(predict({.zones = 0}).ok());
  EXPECT_FALSE(predict({.zones = 1u << 20, .blocks = 1u << 20}).ok());
}

}  // namespace
}  // namespace tutti::health
