// The planner's promises, without any rank running: there is a plan for every request, and a
// repeated call costs no new one.
#include "src/comm/planner.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "src/plan/emit.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"

namespace tutti::comm {
namespace {

using schedule::Collective;

PlannerOptions on_one_host(int ranks) {
  PlannerOptions options;
  options.host.algorithms = registry::algorithms();
  options.group = group::group_on_hosts(std::vector<int>(static_cast<size_t>(ranks), 0));
  options.cores = 2;
  return options;
}

Request request_of(Collective collective, uint64_t count) {
  return {.collective = collective, .type = types::DataType::kFloat32, .count = count};
}

// ---- the cache of plans -------------------------------------------------------------------------

// Whatever sets their keys fall in.
TEST(PlanCache, BindsFewCallsInTurnsOnce) {
  size_t bound = 0;
  PlannerOptions options = on_one_host(2);
  options.tamper = [&](plan::Plan&) { ++bound; };
  Planner planner(std::move(options));
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::array<uint64_t, PlanCache::kWays> counts;
    for (uint64_t& count : counts) count = random() % 100'000;
    const auto run_all = [&] {
      for (const uint64_t count : counts) {
        const Request request = request_of(Collective::kAllReduce, count);
        const Result<const Prepared*> made = planner.host().prepare(request, false, {});
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ(made.value()->key.count, count);
      }
    };
    run_all();
    const size_t before = bound;
    for (int again = 0; again < 3; ++again) run_all();
    EXPECT_EQ(bound, before) << "round " << round;
  }
}

// A call that comes back again and again stays, whatever else passes by.
TEST(PlanCache, KeepsWhatIsUsed) {
  size_t bound = 0;
  PlannerOptions options = on_one_host(2);
  options.tamper = [&](plan::Plan&) { ++bound; };
  Planner planner(std::move(options));
  const Request often = request_of(Collective::kAllReduce, 1000);
  ASSERT_TRUE(planner.host().prepare(often, false, {}).ok());
  for (uint64_t count = 1; count < 1000; ++count) {
    ASSERT_TRUE(planner.host().prepare(request_of(Collective::kAllGather, count), false, {}).ok());
    ASSERT_TRUE(planner.host().prepare(often, false, {}).ok());
  }
  EXPECT_EQ(bound, 1000u);
}

// ---- groups of more ranks than one step of a plan holds -----------------------------------------

// Selection leaves out what no plan holds, and a multicast has no limit within a host.
TEST(LargeGroup, HasAPlanForEveryCollective) {
  std::vector<uint64_t> counts{1u << 10};
  std::vector<plan::Mode> modes{plan::Mode::kStaged};
  if (!testing_support::kSanitized) {
    counts.insert(counts.end(), {1, 1u << 20});
    modes.push_back(plan::Mode::kDirect);
  }
  for (int i = 0; i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const plan::Mode mode : modes) {
      Planner planner(on_one_host(1025));
      for (const uint64_t count : counts) {
        const Request request = request_of(collective, count);
        const Result<const Prepared*> made = planner.host().prepare(request, false, {mode, false});
        EXPECT_TRUE(made.ok()) << schedule::name_of(collective) << " of " << count << ", "
                               << plan::name_of(mode) << ": " << made.status().message();
      }
    }
  }
}

// The bytes that a plan stages follow from the blocks of the rank's own SENDs: no match of a whole
// host is made here, which takes gigabytes.
TEST(LargeGroup, TakesNoAlgorithmThatDoesNotFit) {
  for (const int ranks : {1025, 2048, 4096}) {
    PlannerOptions options = on_one_host(ranks);
    const plan::Tuning tuning = options.host.tuning;
    Planner planner(std::move(options));
    for (int i = 0; i < schedule::kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      for (const uint64_t count : {1u, 1u << 10, 1u << 20}) {
        const Request request = request_of(collective, count);
        const select::Candidate best = planner.host().candidates(request, false).front();
        const std::string what = std::string(schedule::name_of(collective)) + "/" +
                                 std::string(best.algorithm->name) + " of " +
                                 std::to_string(count) + ", " + std::to_string(ranks) + " ranks";
        EXPECT_EQ(best.rejected, "") << what;
        plan::Match match;
        match.shape = best.algorithm->shape(best.parameters);
        match.schedule = best.algorithm->schedule(best.parameters, 0);
        match.published = best.algorithm->cost(best.parameters).published;
        match.lanes.resize(match.shape.lanes);
        for (const schedule::Step& step : match.schedule.steps) {
          const bool sends = step.kind == schedule::StepKind::kSend;
          if (sends) match.lanes[step.lane].blocks += step.block_count;
          if (sends) continue;
          EXPECT_LE(step.operand_count, uint32_t{types::kMaxSources}) << what;
        }
        const uint64_t stride = plan::measure(match, {.count = count}, tuning).stride;
        for (const plan::LaneMatch& lane : match.lanes) {
          EXPECT_LE(lane.blocks * stride, tuning.region_bytes) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::comm
