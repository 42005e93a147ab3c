// Context parallelism by blocks: training_systems 3.10.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/block_context.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/partial_softmax.h"

namespace tutti::runtime {
namespace {

using Lengths = std::vector<int64_t>;

// 3.10 (e).
TEST(RuntimeBlockContext, HidingNeedsTheBandwidthOfThePaper) {
  const AttentionShape shape{64, 8, 128};
  EXPECT_NEAR(hiding_bandwidth(4096, shape, 989'000), 30.2, 0.05);
  EXPECT_NEAR(hiding_bandwidth(4096, shape, 989'000 * 0.7), 21.1, 0.05);
  EXPECT_REFUSED(hiding_bandwidth(4096, {6, 4, 128}, 1), "not a multiple of 4");
}

TEST(RuntimeBlockContext, BlocksCoverTheSequencesAndRoundsAreTheLargestDegree) {
  std::mt19937 dice(3);
  for (int i = 0; i < 100; ++i) {
    Lengths lengths(1 + dice() % 5);
    int64_t tokens = 0, pairs = 0;
    for (int64_t& length : lengths) {
      tokens += length = 1 + dice() % 900;
      pairs += length * (length + 1) / 2;
    }
    const int ranks = 1 + int(dice() % 6);
    const ContextPlan plan = plan_context(lengths, ranks, {128, 64});
    validate(plan.placement);
    EXPECT_EQ(plan.placement.size, tokens);
    EXPECT_EQ(int(plan.rounds.size()), max_degree(plan.pulls.parcels, ranks));
    int64_t work = 0, covered = 0;
    for (const int64_t load : plan.balance.loads) work += load;
    for (int r = 0; r < ranks; ++r) {
      for (const ContextNeed& need : plan.needs_of(r)) {
        const ContextBlock &q = plan.blocks[size_t(need.query)], &k = plan.blocks[size_t(need.key)];
        covered += need.query == need.key ? q.length * (q.length + 1) / 2 : q.length * k.length;
      }
    }
    EXPECT_EQ(work, pairs);
    EXPECT_EQ(covered, pairs);
    EXPECT_TRUE(check(context_timeline(plan, {1, Nanoseconds(5), 3})).empty());
  }
}

// 3.10 (e): with equal blocks pulling takes the largest degree times one block, coalesced or not.
TEST(RuntimeBlockContext, PullsTakeTheLargestDegreeTimesABlock) {
  const ContextPlan plan = plan_context(Lengths{2048, 1024, 1024, 512}, 4, {128, 128});
  const Timeline timeline = context_timeline(plan, {0, Nanoseconds(1000), 4});
  const Nanoseconds whole = summarize(timeline, simulate(timeline)).makespan;
  EXPECT_EQ(whole, Nanoseconds(1000) * int64_t(plan.rounds.size()));
}

TEST(RuntimeBlockContext, RefusesBlocksAndSequencesThatCannotBe) {
  EXPECT_REFUSED(plan_context(Lengths{100}, 2, {100, 64}), "multiple of the kernels' grain 64");
  EXPECT_REFUSED(plan_context(Lengths{100}, 2, {0, 64}), "no positive multiple");
  EXPECT_REFUSED(plan_context(Lengths{0}, 2, {64, 64}), "1 or more");
  EXPECT_INFEASIBLE(plan_context(Lengths{1000}, 2, {64, 64, 400}), "of memory");
  const ContextPlan plan = plan_context(Lengths{100}, 2, {64, 64});
  EXPECT_REFUSED(context_timeline(plan, {1, Nanoseconds(0), 0}), "1 or more");
  EXPECT_REFUSED(plan_context_at(Lengths{100}, 2, {64, 64}, std::vector<int>{0}), "one a block");
  EXPECT_REFUSED(plan_context_at(Lengths{100}, 2, {64, 64}, std::vector<int>{0, 2}), "in bin 2");
}

constexpr size_t kDim = 4;
constexpr size_t kToken = 3 * kDim;  // query, key, value

double token(int64_t t, size_t i) { return std::sin(double(t) * 1.7 + double(i) * 0.9) * 2; }

/// One query token on a run of keys: the output, then the lse.
std::vector<double> attend(const double* q, const double* keys, int64_t count) {
  std::vector<double> result(kDim + 1, 0), scores;
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    double score = 0;
    for (size_t i = 0; i < kDim; ++i) score += q[i] * keys[size_t(k) * kToken + kDim + i];
    scores.push_back(score);
    most = std::max(most, score);
  }
  for (double& score : scores) sum += score = std::exp(score - most);
  for (int64_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < kDim; ++i) {
      result[i] += scores[size_t(k)] / sum * keys[size_t(k) * kToken + 2 * kDim + i];
    }
  }
  result[kDim] = most + std::log(sum);
  return result;
}

/// The attention of all tokens in the user's even sharding, computed under this plan.
std::vector<double> outputs(tuttiComm_t comm, int rank, const ContextPlan& plan) {
  const Sharding user = even(plan.placement.size, plan.ranks);
  const Resharding in = reshard(user, plan.placement);
  std::vector<double> mine, held(size_t(plan.placement.local_size(rank)) * kToken);
  for (const Shard& shard : user.shards) {
    for (int64_t t = 0; shard.rank == rank && t < shard.length; ++t) {
      for (size_t i = 0; i < kToken; ++i) mine.push_back(token(shard.begin + t, i));
    }
  }
  Exchange(in, Bytes(kToken * 8)).run(comm, mine.data(), held.data());
  std::vector<double> pulled(size_t(plan.pulls.target_sizes[size_t(rank)]) * kToken);
  Exchange(plan.pulls, Bytes(kToken * 8)).run(comm, held.data(), pulled.data());
  std::vector<const double*> where(plan.blocks.size(), nullptr);
  const std::vector<int64_t> local = plan.placement.local_offsets();
  for (size_t b = 0; b < where.size(); ++b) {
    if (plan.blocks[b].owner == rank) where[b] = held.data() + size_t(local[b]) * kToken;
  }
  for (size_t p = 0; p < plan.pulls.parcels.size(); ++p) {
    const Parcel& parcel = plan.pulls.parcels[p];
    if (parcel.target != rank) continue;
    where[size_t(plan.pulled_block[p])] = pulled.data() + size_t(parcel.target_offset) * kToken;
  }
  std::vector<double> out(held.size() / kToken * kDim), lse(held.size() / kToken, -INFINITY);
  for (const ContextNeed& need : plan.needs_of(rank)) {
    const ContextBlock& q = plan.blocks[size_t(need.query)];
    for (int64_t t = 0; t < q.length; ++t) {
      const size_t row = size_t(local[size_t(need.query)] + t);
      const int64_t keys = need.query == need.key ? t + 1 : plan.blocks[size_t(need.key)].length;
      const std::vector<double> part =
          attend(where[size_t(need.query)] + size_t(t) * kToken, where[size_t(need.key)], keys);
      merge_partials(std::span(out).subspan(row * kDim, kDim), std::span(lse).subspan(row, 1),
                     std::span(part).first(kDim), std::span(part).last(1));
    }
  }
  std::vector<double> back(size_t(user.local_size(rank)) * kDim);
  Exchange(reverse(in), Bytes(kDim * 8)).run(comm, out.data(), back.data());
  return back;
}

// 3.10 (e): the output does not depend on the placement, to the bit.
TEST(RuntimeBlockContext, AnyPlacementGivesTheSameAttention) {
  const Lengths lengths{70, 9, 33};  // 112 tokens
  std::vector<double> expected;
  run_ranks(1, [&](tuttiComm_t comm, int rank) {
    expected = outputs(comm, rank, plan_context(lengths, 1, {16, 16}));
  });
  // Whole rows, once by hand: the last token of the second sequence.
  std::vector<double> keys;
  for (int64_t t = 70; t < 79; ++t) {
    for (size_t i = 0; i < kToken; ++i) keys.push_back(token(t, i));
  }
  const std::vector<double> direct = attend(keys.data() + 8 * kToken, keys.data(), 9);
  for (size_t i = 0; i < kDim; ++i) EXPECT_NEAR(expected[78 * kDim + i], direct[i], 1e-12);
  std::mt19937 dice(1);
  for (int i = 0; i < 3; ++i) {
    ContextPlan plan = plan_context(lengths, 4, {16, 16});
    std::vector<int> owners;
    for (const ContextBlock& block : plan.blocks)
      owners.push_back(i == 0 ? block.owner : int(dice() % 4));
    plan = plan_context_at(lengths, 4, {16, 16}, owners);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      const std::vector<double> got = outputs(comm, rank, plan);
      const auto first = expected.begin() + rank * 28 * std::ptrdiff_t(kDim);
      EXPECT_EQ(got, std::vector<double>(first, first + 28 * std::ptrdiff_t(kDim)));
    });
  }
}

// 3.10 (b): causal pairs of head and tail are equal work, so every rank of one long sequence has as
// much, and both blocks of a pair are in one place.
TEST(RuntimeBlockContext, PairsOfHeadAndTailAreEqualWork) {
  ContextSpec spec{128, 128};
  spec.pairs = true;
  const ContextPlan plan = plan_context(Lengths{128 * 16}, 4, spec);
  for (size_t b = 0; b < 16; ++b) EXPECT_EQ(plan.blocks[b].owner, plan.blocks[15 - b].owner);
  EXPECT_EQ(*std::ranges::min_element(plan.balance.loads), plan.balance.max_load);
  const ContextPlan two = plan_context(Lengths{128 * 3, 128 * 2}, 2, spec);  // a middle block alone
  EXPECT_EQ(two.blocks[0].owner, two.blocks[2].owner);
  EXPECT_EQ(two.blocks[3].owner, two.blocks[4].owner);
  spec.tokens_per_rank = 128 * 3;
  EXPECT_INFEASIBLE(plan_context(Lengths{128 * 8}, 2, spec), "of memory");
}

TEST(RuntimeBlockContext, ShortBlocksCostWhatKernelsTakeForThem) {
  ContextSpec spec{1024, 64};
  spec.rates = {{128, 0.25}, {1024, 1}};
  const ContextPlan plan = plan_context(Lengths{1024, 128, 576, 64}, 2, spec);
  const auto pairs = [](int64_t n) { return n * (n + 1) / 2; };
  int64_t all = 0;
  for (const int64_t load : plan.balance.loads) all += load;
  // 576 is half way between the two lengths of the table; below it the rate stays.
  const auto half = int64_t(std::ceil(double(pairs(576)) / 0.625));
  EXPECT_EQ(all, pairs(1024) + 4 * pairs(128) + half + 4 * pairs(64));
  spec.rates = {{128, 0}};
  EXPECT_REFUSED(plan_context(Lengths{1024}, 2, spec), "above 0");
  spec.rates = {{128, 0.5}, {128, 0.6}};
  EXPECT_REFUSED(plan_context(Lengths{1024}, 2, spec), "sort them");
}

}  // namespace
}  // namespace tutti::runtime
