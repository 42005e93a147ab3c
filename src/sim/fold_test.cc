#include "src/sim/fold.h"

#include "src/sim/fold_cases_test.h"

namespace tutti::sim {
namespace {

using schedule::Collective;
using namespace tests;

TEST(Fold, GivesTheTimesOfEveryRankOnRandomSymmetricTopologies) {
  EXPECT_GT(compare_folds(33, 30), 5);
}

size_t actors(const Experiment& wanted, const Network& network) {
  return run(wanted, network).cast.actors.size();
}

TEST(Fold, OfARingIsOneRankUntilARankOrALinkDiffers) {
  Network network = star(8, 1, 1'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 8 << 10);
  EXPECT_EQ(actors(wanted, network), 1);
  wanted.faults = {{.rank = 3, .factor = 2}};
  EXPECT_EQ(actors(wanted, network), 8);
  wanted.faults.clear();
  ASSERT_TRUE(network.fail({.level = 1, .node = 5, .factor = 0.5}).ok());
  EXPECT_EQ(actors(wanted, network), 8);
}

TEST(Fold, OfARingIsRefusedWhereBlocksAreOfDifferentLengths) {
  const Network network = star(8, 1, 1'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 0);
  wanted.job.request.count = 801;
  EXPECT_EQ(actors(wanted, network), 8);
}

TEST(Fold, OfABroadcastKeepsTheRanksApartThatItReachesAtDifferentTimes) {
  const Network network = star(8, 1, 1'000);
  Experiment wanted = experiment(Collective::kBroadcast, "binomial", network, 4 << 10);
  const size_t found = actors(wanted, network);
  EXPECT_GT(found, 3u);  // after 0, 1, 2 and 3 messages
  wanted = experiment(Collective::kBroadcast, "chain", network, 4 << 10);
  EXPECT_EQ(actors(wanted, network), 8);
}

// Two racks whose uplinks differ: no rank of one does what a rank of the other does.
TEST(Fold, KnowsTheLinksAboveTheHosts) {
  std::vector<TreeLevel> levels(3);
  levels[0] = {"host", 0, true, {0, 1, 2, 3}, {10, 10, 10, 10}, 0};
  levels[1] = {"rack", 1'000, false, {0, 0, 1, 1}, {10, 10}, 0};
  levels[2] = {"zone", 2'000, false, {0, 0, 0, 0}, {}, 0};
  const Network equal = std::move(Network::make(levels, {0, 0, 0, 0})).value();
  const Experiment wanted = experiment(Collective::kAllReduce, "ring", equal, 4 << 10);
  const size_t folded = actors(wanted, equal);
  levels[1].uplinks = {10, 5};
  const Network different = std::move(Network::make(levels, {0, 0, 0, 0})).value();
  EXPECT_LT(folded, actors(wanted, different));
}

// ---- samples ------------------------------------------------------------------------------------

Result<Cast> sampled(const Experiment& wanted, const Network& network) {
  return cast(wanted.job, network, wanted.faults, Folding::kSampled, {.proved = 1, .sampled = 100});
}

TEST(FoldOfASample, IsThatOfAllWhereRanksAreEqual) {
  const Network network = star(64, 1, 1'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 64 << 10);
  const Result<Cast> made = sampled(wanted, network);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made.value().actors.size(), 1u);
  EXPECT_FALSE(made.value().is_proved);
  EXPECT_LT(made.value().checked, 64u);
  const Outcome whole = run(wanted, network);
  wanted.folding = Folding::kSampled;
  wanted.limits = {.proved = 1, .sampled = 100};
  EXPECT_EQ(run(wanted, network).end, whole.end);
}

TEST(FoldOfASample, IsRefusedWhereSomethingDiffers) {
  Network network = star(64, 1, 1'000);
  Experiment wanted = experiment(Collective::kBroadcast, "binomial", network, 64 << 10);
  EXPECT_THAT(std::string(sampled(wanted, network).status().message()),
              testing::HasSubstr("another program than rank 0"));
  wanted = experiment(Collective::kAllReduce, "ring", network, 64 << 10);
  wanted.faults = {{.rank = 3, .factor = 2}};
  EXPECT_THAT(std::string(sampled(wanted, network).status().message()),
              testing::HasSubstr("some are made slow"));
  wanted.faults.clear();
  ASSERT_TRUE(network.fail({.level = 1, .node = 5, .factor = 0.5}).ok());
  EXPECT_FALSE(sampled(wanted, network).ok());
}

TEST(FoldOfASample, IsRefusedOnATreeThatIsNotUniform) {
  std::vector<TreeLevel> levels(2);
  levels[0] = {"host", 0, true, {0, 0, 1, 1, 2}, {10, 10, 10}, 0};
  levels[1] = {"zone", 1'000, false, {0, 0, 0, 0, 0}, {}, 0};
  const Network network = std::move(Network::make(levels, {0, 0, 0, 0, 0})).value();
  const Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 5 << 10);
  EXPECT_THAT(std::string(sampled(wanted, network).status().message()),
              testing::HasSubstr("not uniform"));
}

TEST(FoldOfASample, IsTakenOnlyWhereItIsAskedFor) {
  const Network network = star(64, 1, 1'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 64 << 10);
  wanted.limits = {.proved = 1, .sampled = 100};
  const Result<Outcome> outcome = simulate(wanted, network);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(std::string(outcome.status().message()), testing::HasSubstr("too many"));
}

}  // namespace
}  // namespace tutti::sim
