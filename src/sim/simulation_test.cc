#include "src/sim/simulation_test.h"

#include "src/sim/report.h"

namespace tutti::sim {
namespace {

using schedule::Collective;
using namespace tests;

TEST(Simulation, OfAMessageTakesItsLatencyAndItsBytes) {
  const Network network = star(2, 1.0, 5'000);
  Experiment wanted = experiment(Collective::kBroadcast, "chain", network, 64 << 10);
  wanted.costs = free_of_charge();
  const Outcome outcome = run(wanted, network);
  EXPECT_TRUE(outcome.is_complete);
  EXPECT_EQ(outcome.end, picoseconds(5'000 + (64 << 10)));
}

// 2 (n-1) steps, in each of which every rank sends a block; over many slices their blocks are cut.
TEST(Simulation, OfARingIsItsClosedForm) {
  for (const uint32_t ranks : {2u, 5u, 16u, 64u}) {
    const Network network = star(ranks, 2.0, 1'000);
    Experiment wanted = experiment(Collective::kAllReduce, "ring", network, ranks * 4096);
    wanted.costs = free_of_charge();
    for (const Folding folding : {Folding::kNever, Folding::kIfEqual}) {
      wanted.folding = folding;
      const Outcome outcome = run(wanted, network);
      const double step_ns = 1'000 + 4096 / 2.0;
      EXPECT_EQ(outcome.end, picoseconds(2 * (ranks - 1) * step_ns)) << ranks;
      EXPECT_EQ(outcome.cast.actors.size(), folding == Folding::kNever ? ranks : 1);
    }
  }
}

TEST(Simulation, OfTwoFlowsOnOneLinkGivesEachHalf) {
  // Ranks 1 and 2 send to rank 0 at the same time.
  const Network network = star(3, 1.0, 1'000);
  Experiment wanted = experiment(Collective::kGather, "direct", network, 48 << 10);
  wanted.costs = free_of_charge();
  const Outcome outcome = run(wanted, network);
  EXPECT_EQ(outcome.end, picoseconds(1'000 + 2 * (48 << 10)));
  ASSERT_NE(busiest(outcome).load, nullptr);
  EXPECT_EQ(network.describe(busiest(outcome).load->link), "down to host 0");
}

TEST(Simulation, GivesEqualBytesForEqualInput) {
  const Network network = std::move(uniform_network({{"host", 4, 200, 0, true, 20},
                                                     {"rack", 3, 2'000, 5, false, 0},
                                                     {"zone", 2, 9'000, 6, false, 0}}))
                              .value();
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    Experiment wanted;
    wanted.job.algorithm = &algorithm;
    wanted.job.parameters = {.ranks = 24, .lanes = std::min<uint16_t>(algorithm.max_lanes, 2)};
    wanted.job.request.count = 10'007;
    wanted.traced = {0, 23};
    const auto text = [&] {
      const Outcome outcome = run(wanted, network);
      EXPECT_TRUE(outcome.is_complete) << algorithm.name;
      return describe(outcome, network, 20) + perfetto_json(outcome, network);
    };
    EXPECT_EQ(text(), text()) << algorithm.name;
  }
}

// The parts of the critical path are all of the time.
TEST(Simulation, SaysWhereItsTimeWent) {
  const Network network =
      std::move(uniform_network({{"host", 4, 200, 0, true, 0}, {"rack", 3, 2'000, 5, false, 0}}))
          .value();
  for (const char* name : {"ring", "recursive_doubling", "double_binary_tree"}) {
    const Experiment wanted = experiment(Collective::kAllReduce, name, network, 1 << 20);
    const Outcome outcome = run(wanted, network);
    const PathSummary path = summarize(outcome, network);
    Time sum = path.work;
    for (const PathPart& part : path.parts) sum += part.wire + part.latency;
    EXPECT_EQ(sum, outcome.end) << name;
    EXPECT_GT(path.parts.size(), 1u) << name;
  }
}

// ---- several links are an uplink -----------------------------------------------------------

// Two racks whose uplinks carry all that their hosts can send.
Time over_paths(uint32_t paths, PathRule rule) {
  Network network = std::move(uniform_network({{"host", 1, 0, 0, true, 0},
                                               {"rack", 8, 1'000, 1, false, 0},
                                               {"zone", 2, 2'000, 8, false, 0}}))
                        .value();
  EXPECT_TRUE(network.divide_uplinks(paths, rule).ok());
  Experiment wanted = experiment(Collective::kAllToAll, "pairwise", network, 16 << 20);
  wanted.costs = free_of_charge();
  return run(wanted, network).end;
}

TEST(SimulatedPaths, APlanIsNearlyAsGoodAsSprayingAndFasterThanAHash) {
  const Time sprayed = over_paths(8, PathRule::kSprayed);
  const Time hashed = over_paths(8, PathRule::kHashed), planned = over_paths(8, PathRule::kPlanned);
  EXPECT_GE(planned, sprayed);
  EXPECT_LT(planned, sprayed + sprayed / 10);
  EXPECT_GT(hashed, planned + planned / 5);
  EXPECT_EQ(over_paths(1, PathRule::kHashed), sprayed);
}

// ---- what is wrong --------------------------------------------------------------------------

Outcome of_ring(const Network& network, const std::vector<RankFault>& faults = {}) {
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 256 << 10);
  wanted.faults = faults;
  return run(wanted, network);
}

TEST(FaultySimulation, IsSlowerByASlowLateOrLossyLinkAndByASlowRank) {
  const Network sound = star(4, 1.0, 1'000);
  const Time time = of_ring(sound).end;
  for (const LinkFault& fault : {LinkFault{.node = 2, .factor = 1, .delay_ns = 50'000},
                                 LinkFault{.level = 1, .node = 2, .factor = 0.5},
                                 LinkFault{.level = 1, .node = 2, .loss = 0.1}}) {
    Network network = sound;
    ASSERT_TRUE(network.fail(fault).ok());
    EXPECT_GT(of_ring(network).end, time + time / 10);
  }
  EXPECT_GT(of_ring(sound, {{.rank = 1, .factor = 50}}).end, time + time / 10);
}

TEST(FaultySimulation, OfADeadLinkNeverEndsAndNamesIt) {
  Network network = star(4, 1.0, 1'000);
  ASSERT_TRUE(network.fail({.level = 1, .node = 2, .dead_from = picoseconds(60'000)}).ok());
  const Outcome outcome = of_ring(network);
  EXPECT_FALSE(outcome.is_complete);
  EXPECT_GT(outcome.end, picoseconds(30'000));
  ASSERT_FALSE(outcome.stuck.empty());
  EXPECT_THAT(outcome.stuck.back(), testing::HasSubstr("host 2 is dead since 0.06"));
}

TEST(FaultySimulation, OfADeadRankNeverEndsAndNamesIt) {
  const Outcome outcome =
      of_ring(star(4, 1.0, 1'000), {{.rank = 1, .factor = 1, .dead_from = picoseconds(60'000)}});
  EXPECT_FALSE(outcome.is_complete);
  ASSERT_FALSE(outcome.stuck.empty());
  EXPECT_EQ(outcome.stuck.back(), "rank 1 is dead");
  EXPECT_THAT(outcome.stuck.front(), testing::HasSubstr("waits for a message of rank"));
}

TEST(FaultySimulation, IsRefusedOfRanksThatAreNotThere) {
  const Network network = star(4, 1.0, 1'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 64);
  wanted.faults = {{.rank = 4}};
  EXPECT_THAT(std::string(simulate(wanted, network).status().message()),
              testing::HasSubstr("no rank 4"));
  wanted.faults.clear();
  wanted.traced = {-1};
  EXPECT_FALSE(simulate(wanted, network).ok());
  wanted.traced.clear();
  wanted.job.parameters.ranks = 5;
  EXPECT_FALSE(simulate(wanted, network).ok());
}

// ---- hosts ----------------------------------------------------------------------------------

Network one_host(uint32_t ranks, double shared) {
  return std::move(uniform_network({{"host", ranks, 200, 0, true, shared}})).value();
}

// A memory bus that carries what half of the cores copy makes the call twice as long.
TEST(SimulatedHost, IsBoundedByItsMemory) {
  Experiment wanted = experiment(Collective::kAllReduce, "ring", one_host(8, 0), 64 << 20);
  wanted.costs = free_of_charge();
  wanted.costs.copy_ns_per_byte = 0.1;
  const Time time = run(wanted, one_host(8, 0)).end;
  EXPECT_EQ(run(wanted, one_host(8, 80)).end, time);
  const Time bound = run(wanted, one_host(8, 40)).end;
  EXPECT_GT(bound, time + time / 2);
  EXPECT_LT(bound, 2 * time + time / 10);
}

TEST(SimulatedHost, WithFewerCoresThanRanksTakesTurns) {
  Experiment wanted = experiment(Collective::kAllReduce, "ring", one_host(8, 0), 8 << 20);
  const Time time = run(wanted, one_host(8, 0)).end;
  wanted.costs.cores = 2;
  EXPECT_GT(run(wanted, one_host(8, 0)).end, 3 * time);
}

}  // namespace
}  // namespace tutti::sim
