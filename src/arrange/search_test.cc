// The search against trying everything, and the facts of communication_systems: where pipelines and
// gradients change places, memory inside the search, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "src/arrange/arrange_test.h"
#include "src/arrange/library_prices.h"
#include "src/arrange/overtaking.h"
#include "src/registry/algorithms.h"

namespace tutti::arrange {
namespace {

using tests::cluster_of;
using tests::small_job;
using tests::try_everything;

void expect_equal(const std::vector<Arranged>& found, const std::vector<Arranged>& all) {
  ASSERT_EQ(found.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(found[i].price.ns, all[i].price.ns) << i;
    EXPECT_EQ(found[i].arrangement, all[i].arrangement) << i;
  }
}

void expect_search_is_exact(const TrainingJob& job, const EvenCluster& cluster,
                            ExchangePrices& prices, const FixedParts& fixed = {}) {
  const StepPricer pricer(job, cluster);
  const auto found = search_arrangements(pricer, prices, fixed, {});
  const std::vector<Arranged> all = try_everything(pricer, prices, fixed, 10);
  if (!found.ok()) {
    EXPECT_TRUE(all.empty()) << found.status().message();
    return;
  }
  EXPECT_TRUE(found.value().is_complete);
  expect_equal(found.value().best, all);
}

// All ways to write a number as a product of so many factors.
void factorings(uint32_t number, size_t levels, std::vector<uint32_t>& sizes,
                std::vector<std::vector<uint32_t>>& found) {
  if (levels == 1) {
    sizes.push_back(number);
    found.push_back(sizes);
    sizes.pop_back();
    return;
  }
  for (uint32_t size = 1; size <= number; ++size) {
    if (number % size != 0) continue;
    sizes.push_back(size);
    factorings(number / size, levels - 1, sizes, found);
    sizes.pop_back();
  }
}

TEST(ArrangementSearchTest, IsThatOfTryingEverythingOnAllTreesOfUpToFourLevels) {
  TrainingJob job = small_job();
  job.model.layers = 4;
  FixedParts fixed;  // what does not depend on the tree is tried in another test
  fixed.recomputed = false;
  fixed.chunks = 1;
  fixed.zero = 1;
  fixed.sequence_parallel = true;
  for (const uint32_t places : {2u, 6u, 8u, 12u, 16u, 24u, 32u}) {
    job.model.batch = 2 * places;
    for (size_t levels = 1; levels <= 4; ++levels) {
      std::vector<std::vector<uint32_t>> trees;
      std::vector<uint32_t> sizes;
      factorings(places, levels, sizes, trees);
      for (const std::vector<uint32_t>& tree : trees) {
        IdealPrices prices(cluster_of(tree));
        expect_search_is_exact(job, prices.cluster(), prices, fixed);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(ArrangementSearchTest, IsThatOfTryingEverythingWithEveryWayToCut) {
  for (const double memory : {1e9, 6e7, 2.5e7}) {
    for (const uint32_t experts : {0u, 4u}) {
      TrainingJob job = small_job();
      job.device.memory = memory;
      if (experts > 0) {
        job.model.feed_forward = 0;
        job.model.experts = experts;
        job.model.experts_per_token = 2;
        job.model.expert_width = 512;
      }
      for (const std::vector<uint32_t>& tree :
           std::vector<std::vector<uint32_t>>{{8}, {4, 4}, {2, 3, 2}, {4, 2, 4, 2}}) {
        IdealPrices prices(cluster_of(tree));
        expect_search_is_exact(job, prices.cluster(), prices);
      }
    }
  }
}

TEST(ArrangementSearchTest, IsThatOfTryingEverythingWithCodecsAndOuterSteps) {
  TrainingJob job = small_job();
  job.codecs = {{"int8_block", 1.0625, 0.6}, {"top_k", 0.2, 3}};
  job.outer_periods = {10, 100};
  FixedParts fixed;
  fixed.recomputed = false;
  fixed.chunks = 1;
  for (const double memory : {1e9, 2.5e7}) {
    job.device.memory = memory;
    for (const std::vector<uint32_t>& tree :
         std::vector<std::vector<uint32_t>>{{8}, {4, 4}, {2, 3, 2}, {2, 2, 2, 2}}) {
      IdealPrices prices(cluster_of(tree, 0.5));
      expect_search_is_exact(job, prices.cluster(), prices, fixed);
    }
  }
}

// Where the outermost link is thin an exchange once in many steps is as good as none.
TEST(ArrangementSearchTest, ThinLinksAreUsedSeldomOrCodedWhereThatIsAllowed) {
  TrainingJob job = small_job();
  job.overlaps_gradients = false;
  FixedParts fixed;
  fixed.degrees = {1, 1, 1, 1, 16};
  EvenCluster cluster = cluster_of({4, 2, 2}, 0.01);
  cluster.levels.back().bytes_per_ns = 0.0001;
  const auto best = [&] {
    IdealPrices prices(cluster);
    return search_arrangements(StepPricer(job, cluster), prices, fixed, {}).value().best[0];
  };
  const Arranged plain = best();
  job.codecs = {{"int8_block", 1.0625, 0.6}};
  const Arranged coded = best();
  EXPECT_EQ(coded.arrangement.codec, 1u);
  EXPECT_LT(coded.price.ns, 0.6 * plain.price.ns);
  job.outer_periods = {100};
  const Arranged seldom = best();
  EXPECT_EQ(seldom.arrangement.outer_period, 100u);
  EXPECT_LT(seldom.price.ns, coded.price.ns);
  EXPECT_NE(describe(seldom.arrangement).find("outer steps every 100"), std::string::npos);
  // A codec that takes longer than it saves is left alone.
  job.outer_periods.clear();
  job.codecs = {{"slow", 1, 1e6}};
  EXPECT_EQ(best().arrangement.codec, 0u);
}

TEST(ArrangementSearchTest, IsExactWithTheLibrarysPricesToo) {
  TrainingJob job = small_job();
  job.device.memory = 8e7;
  const EvenCluster cluster = cluster_of({4, 2, 2});
  LibraryPrices prices(cluster, registry::algorithms(), device_costs(cluster), 4 << 20);
  expect_search_is_exact(job, cluster, prices);
}

TEST(LibraryPricesTest, AreNeverBelowTheirBound) {
  const EvenCluster cluster = cluster_of({4, 4, 2, 2}, 400);
  LibraryPrices prices(cluster, registry::algorithms(), device_costs(cluster), 4 << 20);
  TrainingJob job = small_job();
  job.device.memory = 1e12;
  const StepPricer pricer(job, cluster);
  std::vector<std::string> refused;
  Arrangement cut;
  for (Spread& axis : cut.axes) axis.at[0] = 2;
  cut[Axis::kData].at[0] = 4;
  uint32_t asked = 0;
  for_each_placement(cut, cluster, [&](const Arrangement& placed) {
    for (const Spread& group : {placed[Axis::kTensor], placed.gradient_group(),
                                placed[Axis::kTensor] * placed.gradient_group()}) {
      for (size_t kind = 0; kind < 4; ++kind) {
        for (const double bytes : {4096.0, 1048576.0, 268435456.0}) {
          const GroupExchange exchange{static_cast<ExchangeKind>(kind), group, bytes};
          ASSERT_LE(prices.least_ns(exchange), prices.ns(exchange))
              << name_of(exchange.kind) << " of " << bytes << " by "
              << describe_levels(placed, cluster);
          ++asked;
        }
      }
    }
  });
  EXPECT_GT(asked, 100u);
}

// Bytes over the cut between two sites: 70e9 parameters against micro-batches of 8192 tokens.
TEST(CutBytes, PipelinesOfUpToEightMoveLessThanGradients) {
  const double border = 8192.0 * 8192 * 2;
  const double gradients = gradient_cut_bytes(2, 70e9, 2);
  EXPECT_DOUBLE_EQ(gradients, 140e9);
  EXPECT_NEAR(pipeline_cut_bytes(1, 64, border), 17.18e9, 0.01e9);
  EXPECT_LT(pipeline_cut_bytes(8, 64, border), gradients);
  EXPECT_GT(pipeline_cut_bytes(9, 64, border), gradients);
}

// The same by the search: two sites of `width` places, so that many pipelines of two stages cross.
Axis axis_across(uint32_t width) {
  TrainingJob job;
  job.model = {.name = "flip",
               .layers = 2,
               .hidden = 8192,
               .heads = 1,
               .kv_heads = 1,
               .vocabulary = 1,
               .sequence = 8192,
               .batch = 64 * width};
  // So wide that there are 70e9 parameters; each stage has half of them.
  job.model.feed_forward = static_cast<uint32_t>((70e9 / 2 - 4.0 * 8192 * 8192) / (3.0 * 8192));
  job.device = {.name = "d", .flops_per_ns = 1e15, .memory = 1e18, .matmul = 1, .attention = 1};
  job.overlaps_messages = job.overlaps_gradients = false;
  EvenCluster cluster;
  cluster.levels = {{"site", width, 0, 1e9, true}, {"sites", 2, 0, 1, false}};
  IdealPrices prices(cluster);
  FixedParts fixed;
  fixed.degrees = {1, 1, 1, std::nullopt, std::nullopt};
  fixed.micro_batch = 1;
  fixed.zero = 0;
  fixed.chunks = 1;
  fixed.recomputed = fixed.sequence_parallel = false;
  const StepPricer pricer(job, cluster);
  const auto found = search_arrangements(pricer, prices, fixed, {});
  EXPECT_TRUE(found.ok());
  const Arrangement& best = found.value().best.front().arrangement;
  return best[Axis::kPipeline].at[1] == 2 ? Axis::kPipeline : Axis::kData;
}

TEST(ArrangementSearchTest, PutsPipelinesAcrossTheCutUpToEightAndGradientsFromNine) {
  EXPECT_EQ(axis_across(7), Axis::kPipeline);
  EXPECT_EQ(axis_across(8), Axis::kPipeline);
  EXPECT_EQ(axis_across(9), Axis::kData);
  EXPECT_EQ(axis_across(11), Axis::kData);
}

TEST(ArrangementSearchTest, MoreBandwidthNeverMakesTheStepLonger) {
  double before = 1e300;
  for (const double bandwidth : {1.0, 2.0, 5.0, 20.0, 100.0}) {
    EvenCluster cluster = cluster_of({4, 4, 2});
    cluster.levels[2].bytes_per_ns = bandwidth;
    IdealPrices prices(cluster);
    const StepPricer pricer(small_job(), cluster);
    const auto found = search_arrangements(pricer, prices, {}, {});
    ASSERT_TRUE(found.ok());
    EXPECT_LE(found.value().best.front().price.ns, before);
    before = found.value().best.front().price.ns;
  }
}

TEST(ArrangementSearchTest, LessMemoryNeverMakesTheStepShorterAndZeroMakesRoom) {
  const EvenCluster cluster = cluster_of({4, 2});
  IdealPrices prices(cluster);
  double before = 0;
  bool fits = true;
  for (double memory = 1e9; fits; memory *= 0.8) {
    TrainingJob job = small_job();
    job.device.memory = memory;
    const StepPricer pricer(job, cluster);
    const auto found = search_arrangements(pricer, prices, {}, {});
    fits = found.ok();
    if (!fits) break;
    EXPECT_GE(found.value().best.front().price.ns, before);
    before = found.value().best.front().price.ns;
    EXPECT_LE(found.value().best.front().memory, memory);
  }
  // Where no undivided state fits, a search that tested memory afterwards would find nothing.
  TrainingJob job = small_job();
  const StepPricer roomy(job, cluster);
  FixedParts data_only;
  data_only.degrees = {1, 1, 1, 1, 8};
  data_only.zero = 0;
  Arrangement whole;
  whole[Axis::kData].at[0] = 8;
  whole.micro_batches = 8;
  job.device.memory = roomy.memory(whole) * 0.7;
  const StepPricer pricer(job, cluster);
  EXPECT_FALSE(search_arrangements(pricer, prices, data_only, {}).ok());
  data_only.zero.reset();
  const auto found = search_arrangements(pricer, prices, data_only, {});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_GE(found.value().best.front().arrangement.zero, 1u);
}

TEST(ArrangementSearchTest, SaysThatTimeWasOverAndGivesTheBestSoFar) {
  const EvenCluster cluster = cluster_of({8, 4});
  IdealPrices prices(cluster);
  const StepPricer pricer(small_job(), cluster);
  SearchLimits limits;
  limits.is_over = [] { return true; };
  const auto found = search_arrangements(pricer, prices, {}, limits);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found.value().is_complete);
  EXPECT_GE(found.value().best.size(), 1u);
}

TEST(ArrangementSearchTest, RefusesWhatCannotBe) {
  const EvenCluster cluster = cluster_of({4, 2});
  IdealPrices prices(cluster);
  const auto refused = [&](const TrainingJob& job, const EvenCluster& on,
                           const FixedParts& fixed = {}) {
    const StepPricer pricer(job, on);
    const auto found = search_arrangements(pricer, prices, fixed, {});
    return found.ok() ? std::string() : std::string(found.status().message());
  };
  EvenCluster dead = cluster;
  dead.levels[1].bytes_per_ns = 0;
  EXPECT_NE(refused(small_job(), dead).find("no bandwidth above 0"), std::string::npos);
  EvenCluster upside_down = cluster;
  upside_down.levels[1].latency_ns = 1;
  EXPECT_NE(refused(small_job(), upside_down).find("lower latency"), std::string::npos);
  TrainingJob job = small_job();
  job.device.attention = 0;
  EXPECT_NE(refused(job, cluster).find("no profile"), std::string::npos);
  job = small_job();
  job.device.memory = 1e6;
  EXPECT_NE(refused(job, cluster).find("do not fit the memory"), std::string::npos);
  FixedParts fixed;
  fixed.degrees[static_cast<size_t>(Axis::kTensor)] = 3;
  EXPECT_NE(refused(small_job(), cluster, fixed).find("no arrangement"), std::string::npos);
  const StepPricer pricer(small_job(), cluster);
  Arrangement wrong;
  wrong.micro_batches = 64;
  wrong[Axis::kPipeline].at[0] = 16;
  EXPECT_NE(pricer.why_not(wrong).find("more than 8 layers"), std::string::npos);
  wrong[Axis::kPipeline].at[0] = 1;
  wrong[Axis::kExpert].at[0] = 2;
  EXPECT_NE(pricer.why_not(wrong).find("experts"), std::string::npos);
}

TEST(OvertakingTest, IsWhereBothTakeEquallyLong) {
  const EvenCluster cluster = cluster_of({4, 4});
  const StepPricer pricer(small_job(), cluster);
  IdealPrices prices(cluster);
  const auto found = search_arrangements(pricer, prices, {}, {});
  ASSERT_TRUE(found.ok());
  ASSERT_GE(found.value().best.size(), 2u);
  const Arrangement& first = found.value().best[0].arrangement;
  const MakePrices make = [](const EvenCluster& changed) {
    return std::make_unique<IdealPrices>(changed);
  };
  uint32_t changes = 0;
  for (size_t other = 1; other < found.value().best.size(); ++other) {
    const Arrangement& second = found.value().best[other].arrangement;
    for (const Overtaking& change : overtakings(pricer, first, second, make)) {
      EvenCluster changed = cluster;
      changed.levels[change.level].bytes_per_ns = change.bytes_per_ns;
      IdealPrices then(changed);
      const StepPricer there(small_job(), changed);
      const auto ns = [&](const GroupExchange& exchange) { return then.ns(exchange); };
      const double one = there.price(first, ns).ns;
      const double two = there.price(second, ns).ns;
      EXPECT_LE(two, one);
      EXPECT_NEAR(two / one, 1, 0.01);
      ++changes;
    }
  }
  EXPECT_GT(changes, 0u);
}

}  // namespace
}  // namespace tutti::arrange
