// NoLoCo and A Single Merging Suffices over real ranks. Sections are those of the list of systems
// (17, 21).
#include "tutti/runtime/outer/noloco.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "src/codecs/codecs_test.h"
#include "src/runtime/crew_test.h"
#include "src/runtime/outer/inner_test.h"
#include "tutti/runtime/outer/single_merge.h"

namespace tutti::runtime {
namespace {

using codecs::Values;
using outer_test::inner_step;
using outer_test::start;

TEST(NoLoCo, PairsAreAFunctionOfSeedAndRound) {
  for (const int ranks : {2, 6, 64, 1000}) {
    for (int64_t round = 0; round < 20; ++round) {
      const std::vector<int> partner = gossip_pairs(5, round, ranks);
      for (int r = 0; r < ranks; ++r) {
        const int other = partner[static_cast<size_t>(r)];
        ASSERT_NE(other, r);
        ASSERT_EQ(partner[static_cast<size_t>(other)], r);
      }
      EXPECT_EQ(partner, gossip_pairs(5, round, ranks));
    }
  }
  EXPECT_NE(gossip_pairs(5, 0, 64), gossip_pairs(5, 1, 64));
  EXPECT_NE(gossip_pairs(5, 0, 64), gossip_pairs(6, 0, 64));
  EXPECT_REFUSED(gossip_pairs(1, 1, 5), "use an even number");
  std::vector<int> idle(5, 0);
  for (int64_t round = 0; round < 500; ++round) {
    const std::vector<int> partner = gossip_pairs(1, round, 5, OddRank::kIdle);
    EXPECT_EQ(std::count(partner.begin(), partner.end(), -1), 1);
    for (size_t r = 0; r < 5; ++r) idle[r] += partner[r] < 0;
  }
  for (const int times : idle) EXPECT_NEAR(times, 100, 40);
}

/// The mean square of slow weights of many replicas without deltas: its factor in a round.
double simulated_rate(double alpha, double gamma) {
  constexpr int kReplicas = 4000, kFirst = 6, kLast = 26;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> slow(kReplicas), m(kReplicas, 0.0);
  for (double& x : slow) x = normal(random);
  double first = 0;
  const auto square = [&] {
    double sum = 0;
    for (const double x : slow) sum += x * x;
    return sum;
  };
  for (int round = 0; round < kLast; ++round) {
    if (round == kFirst) first = square();
    const std::vector<int> partner = gossip_pairs(99, round, kReplicas);
    const std::vector<double> before = slow;
    for (size_t r = 0; r < slow.size(); ++r) {
      const double theirs = before[static_cast<size_t>(partner[r])];
      m[r] = alpha * m[r] + gamma * ((before[r] + theirs) / 2 - before[r]);
      slow[r] += m[r];
    }
  }
  return std::pow(square() / first, 1.0 / (kLast - kFirst));
}

TEST(NoLoCo, Section17ConsensusRate) {
  EXPECT_NEAR(consensus_rate(0.5, 0.5), 0.652, 0.002);
  EXPECT_NEAR(consensus_rate(0.5, 0.7), 0.700, 0.002);
  EXPECT_NEAR(consensus_rate(0.5, 1.0), 0.792, 0.002);
  EXPECT_NEAR(consensus_rate(0.5, 1.5), 1.000, 0.002);
  for (const double alpha : {0.0, 0.5, 0.9}) {
    const double limit = 2 * (1 - alpha * alpha);
    EXPECT_LT(consensus_rate(alpha, limit * 0.98), 1);
    EXPECT_GT(consensus_rate(alpha, limit * 1.02), 1);
  }
  EXPECT_NEAR(2 * (1 - 0.81), 0.38, 1e-9);
  EXPECT_NEAR(simulated_rate(0.5, 0.7), 0.6995, 0.02);
  EXPECT_NEAR(simulated_rate(0.5, 1.4), 0.953, 0.02);
  EXPECT_NEAR(simulated_rate(0.5, 1.6), 1.050, 0.02);
  EXPECT_NEAR(simulated_rate(0.9, 0.7), 1.0985, 0.02);
}

TEST(NoLoCo, Section17TimeOfARound) {
  EXPECT_NEAR(expected_pair_wait(0.25), 1.14, 0.005);
  EXPECT_NEAR(expected_pair_wait(0.5), 1.28, 0.005);
  EXPECT_NEAR(expected_pair_wait(1), 1.52, 0.005);
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> times(0, 0.5);
  double both = 0, one = 0;
  for (int i = 0; i < 400'000; ++i) {
    const double a = times(random), b = times(random);
    both += std::max(a, b);
    one += a;
  }
  EXPECT_NEAR(both / one, expected_pair_wait(0.5), 0.01);
  EXPECT_EQ(tree_waits(64), 12);
  EXPECT_EQ(tree_waits(256), 16);
  EXPECT_EQ(tree_waits(1024), 20);
}

// Section 17: the mean of slow weights over all ranks stays when deltas are zero.
TEST(NoLoCo, Section17MeanStaysAndRanksComeTogether) {
  std::vector<float> slow(8);
  run_ranks(8, [&](tuttiComm_t comm, int rank) {
    Values params(3, static_cast<float>(rank));
    NoLoCo optimizer({comm, 0}, params, {.period = 1, .seed = 4});
    for (int64_t t = 1; t <= 60; ++t) {
      EXPECT_EQ(optimizer.boundary(t, params).applied, 0);
    }
    slow[static_cast<size_t>(rank)] = optimizer.slow()[1];
  });
  float sum = 0;
  for (const float x : slow) {
    sum += x;
    EXPECT_NEAR(x, 3.5f, 1e-3f);
  }
  EXPECT_NEAR(sum, 28, 1e-4);
}

TEST(NoLoCo, DoesWhatASerialReferenceDoes) {
  for (const int ranks : {2, 4, 5}) {
    const OddRank odd = ranks % 2 == 0 ? OddRank::kRefused : OddRank::kIdle;
    std::vector<Values> local(static_cast<size_t>(ranks)), slow(local), m(local);
    for (size_t r = 0; r < local.size(); ++r) {
      slow[r] = local[r] = start(40);
      m[r].assign(40, 0.0f);
    }
    for (int64_t t = 1; t <= 12; ++t) {
      for (int r = 0; r < ranks; ++r) inner_step(r, t, local[static_cast<size_t>(r)]);
      if (t % 3 != 0) continue;
      const std::vector<int> partner = gossip_pairs(8, t / 3, ranks, odd);
      const std::vector<Values> old_slow = slow, old_local = local;
      for (size_t r = 0; r < local.size(); ++r) {
        if (partner[r] < 0) continue;
        const auto p = static_cast<size_t>(partner[r]);
        for (size_t i = 0; i < 40; ++i) {
          const float delta =
              ((old_local[r][i] - old_slow[r][i]) + (old_local[p][i] - old_slow[p][i])) / 2;
          const float mean = (old_slow[r][i] + old_slow[p][i]) / 2;
          m[r][i] = 0.5f * m[r][i] + 0.7f * delta + 0.7f * (mean - old_slow[r][i]);
          slow[r][i] += m[r][i];
        }
        local[r] = slow[r];
      }
    }
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      Values params = start(40);
      NoLoCo optimizer({comm, 0}, params, {.period = 3, .seed = 8, .odd = odd});
      for (int64_t t = 1; t <= 12; ++t) {
        inner_step(rank, t, params);
        optimizer.boundary(t, params);
      }
      EXPECT_EQ(params, local[static_cast<size_t>(rank)]);
    });
  }
}

TEST(NoLoCo, WithADelayARankKeepsWhatItHasGoneMeanwhile) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    Values params(4, 0.0f);
    NoLoCo optimizer({comm, 0}, params,
                     {.period = 4, .alpha = 0, .eta = 1, .gamma = 1, .delay = 2});
    for (int64_t t = 1; t <= 6; ++t) {
      for (float& x : params) x += 1;
      EXPECT_EQ(optimizer.boundary(t, params).applied, t == 6 ? 0 : -1);
    }
    EXPECT_EQ(params, Values(4, 6.0f));
    EXPECT_EQ(optimizer.slow()[0], 4);
  });
}

// Section 17: a dead partner costs a round; nobody else is blocked, and slow weights stay.
TEST(NoLoCo, Section17SkipsRoundsOfADeadPartner) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    tuttiComm_t own = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &own, nullptr), tuttiSuccess);
    Values params(4, 1.0f);
    {
      NoLoCo optimizer({own, 0}, params, {.period = 1});
      if (rank == 0) {
        params.assign(4, 3.0f);
        const OuterReport report = optimizer.boundary(1, params);
        EXPECT_NE(report.skipped.find("rank 1"), std::string::npos) << report.skipped;
        EXPECT_EQ(params, Values(4, 3.0f));
        EXPECT_EQ(optimizer.slow()[0], 1);
        EXPECT_NE(optimizer.boundary(2, params).skipped.find("regroup()"), std::string::npos);
      }
      if (rank == 1) tuttiCommAbort(std::exchange(own, nullptr));
    }
    if (own != nullptr) tuttiCommAbort(own);
  });
}

TEST(NoLoCo, Section17RefusesWhatDiverges) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values params(4, 0.0f);
    const auto with = [&](NoLoCoSpec spec) { NoLoCo({comm, 0}, params, spec); };
    EXPECT_REFUSED(with({.alpha = 0.9f}), "gamma is 0.7");
    EXPECT_REFUSED(with({.gamma = 1.5f}), "only between 0 and 1.5");
    EXPECT_REFUSED(with({.gamma = 0}), "lower gamma or alpha");
    EXPECT_REFUSED(with({.period = 4, .delay = 4}), "give 0 to 3");
    const std::string seeds =
        refusal([&] { with({.seed = uint64_t(rank)}); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(seeds.find("its seed, too"), std::string::npos);
    const std::string shapes = refusal(
        [&] {
          NoLoCo({comm, 0}, Values(rank == 0 ? 4 : 5, 0.0f), {});
        },
        ErrorKind::kRanksDiffer);
    EXPECT_NE(shapes.find("the plan of NoLoCo"), std::string::npos);
    NoLoCo apart({comm, 0}, params, {.period = 2});
    apart.boundary(rank == 0 ? 1 : 3, params);
    const std::string steps =
        refusal([&] { apart.boundary(rank == 0 ? 2 : 4, params); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(steps.find("bring them to one step"), std::string::npos);
  });
  run_ranks(3, [](tuttiComm_t comm, int) {
    EXPECT_REFUSED(NoLoCo({comm, 0}, Values(4, 0.0f), {}), "3 ranks do not go in pairs");
  });
}

// ---- A Single Merging Suffices ----

TEST(SingleMerge, Section21MergeIsTheSerialMeanRoundedOnce) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto model = [](int r) { return codecs::hard_values(70'001, uint64_t(r) + 9, 100); };
    Values expected;
    double weights = 0;
    std::vector<double> sums(70'001, 0.0);
    for (int r = 0; r < ranks; ++r) {
      const Values own = model(r);
      for (size_t i = 0; i < own.size(); ++i) sums[i] += (1.0 + r) * own[i];
      weights += 1.0 + r;
    }
    for (const double sum : sums) expected.push_back(static_cast<float>(sum / weights));
    std::vector<Values> merged(static_cast<size_t>(ranks));
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      Values params = model(rank);
      const MergeReport report = merge_all(comm, params, {.weight = 1.0 + rank});
      EXPECT_TRUE(report.excluded.empty());
      EXPECT_FALSE(report.is_partial);
      EXPECT_TRUE(params == expected);
      merged[static_cast<size_t>(rank)] = params;
    });
    for (const Values& own : merged) EXPECT_TRUE(codecs::same_bits(own, merged[0]));  // distance 0
  }
}

TEST(SingleMerge, Section21RefusesAndReports) {
  run_ranks(3, [](tuttiComm_t comm, int rank) {
    Values params(4, static_cast<float>(rank));
    if (rank == 1) params[2] = std::nanf("");
    EXPECT_EQ(merge_all(comm, params, {}).excluded, (std::vector<int>{1}));
    EXPECT_EQ(params, Values(4, 1.0f));
    EXPECT_REFUSED(merge_all(comm, params, {.weight = 0}), "sum to 0");
    EXPECT_REFUSED(merge_all(comm, params, {.weight = -1}), "0 or more");
    EXPECT_REFUSED(merge_all(comm, params, {.members = 5}), "2 of 5 members are missing");
    EXPECT_TRUE(merge_all(comm, params, {.members = 5, .allows_partial = true}).is_partial);
    const std::string layouts = refusal(
        [&] { merge_all(comm, params, {.layout = rank == 2 ? 7 : 1}); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(layouts.find("one layout and version"), std::string::npos);
  });
}

TEST(SingleMerge, BudgetIsSpentLate) {
  const MergeBudget budget{
      .steps = 100, .total = Bytes(1500), .round = Bytes(100), .merge = Bytes(500)};
  const std::vector<int64_t> steps = gossip_steps(budget);
  EXPECT_EQ(steps.size(), 10u);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_GT(std::count_if(steps.begin(), steps.end(), [](int64_t s) { return s > 50; }), 7);
  EXPECT_LT(steps.back(), 100);
  MergeBudget even = budget, poor = budget, rich = budget;
  even.lateness = 1;
  EXPECT_NEAR(static_cast<double>(gossip_steps(even)[4]), 45, 1);
  rich.total = Bytes(1 << 30);
  EXPECT_EQ(gossip_steps(rich).size(), 99u);
  EXPECT_EQ(gossip_steps(rich).front(), 1);
  poor.total = Bytes(499);
  EXPECT_REFUSED(gossip_steps(poor), "does not pay for the merge");
}

// Section 21: f_i = (x - c_i)^2 / 2 with local descent alone: the final mean is the optimum of all,
// and an early merge instead of a late one is no better.
TEST(SingleMerge, Section21LateMergeOfAQuadratic) {
  const auto run = [](int64_t merge_at) {
    float error = 0;
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      const float goal = static_cast<float>(rank * rank);  // the mean is 3.5
      Values params(1, 10.0f);
      const int64_t steps = 200;
      SingleMerge optimizer({comm, 0}, params,
                            {.budget = {.steps = steps, .total = Bytes(100)}, .seed = 3});
      for (int64_t t = 1; t <= steps; ++t) {
        params[0] -= 0.1f * (params[0] - goal);
        if (t == merge_at) merge_all(comm, params, {});
        if (merge_at == steps) optimizer.boundary(t, params);
      }
      if (rank == 0) error = std::fabs(params[0] - 3.5f);
      if (merge_at == steps) {
        EXPECT_LE(optimizer.bytes_sent(), 100);
        EXPECT_GT(optimizer.bytes_sent(), 90);
      }
    });
    return error;
  };
  EXPECT_LT(run(200), 1e-3f);
  EXPECT_GE(run(10), run(200));
}

}  // namespace
}  // namespace tutti::runtime
