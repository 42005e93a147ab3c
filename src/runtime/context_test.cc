// Groups for sequences, routes between nodes, remaps: training_systems 3.11 (Z1), 3.12 (S1, S2).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/group_choice.h"
#include "tutti/runtime/routed.h"

namespace tutti::runtime {
namespace {

using Lengths = std::vector<int64_t>;

FitCost seven_billion() {
  return {5.128e-6, 0.18396, 629.36, 32, 4096, {154, 137, 121, 8.7}, 16384};
}

// 3.12 (e), S1.
TEST(RuntimeGroupChoice, CostsAndChoicesAreThePapers) {
  const FitCost cost = seven_billion();
  EXPECT_EQ(std::round(cost.constant + cost.sequence_ms(65536, 16)), 3701);
  EXPECT_EQ(std::round(cost.constant + cost.sequence_ms(65536, 8)), 5025);
  EXPECT_EQ(std::floor(cost.constant + 16 * cost.sequence_ms(4096, 16)), 2410);
  EXPECT_EQ(std::round(cost.constant + 8 * cost.sequence_ms(4096, 8)), 1537);
  const GroupPlan one = group_choice(Lengths{65536}, 16, cost);
  EXPECT_EQ(one.groups[0].ranks, RankSet::range(0, 16));
  EXPECT_EQ(std::round(one.ms), 3701);
  FitCost tight = cost;
  tight.tokens_per_rank = 4096;  // eight sequences of 4K fill a group of eight
  const GroupPlan many = group_choice(Lengths(16, 4096), 16, tight);
  EXPECT_LE(std::round(many.ms), 1537);
  for (const SequenceGroup& group : many.groups) EXPECT_LE(group.ranks.size(), 8);
}

TEST(RuntimeGroupChoice, PlansCoverEverySequenceAndTheSlowestGroupIsTheTime) {
  std::mt19937 dice(3);
  for (int i = 0; i < 60; ++i) {
    const int ranks = 1 << (dice() % 5);
    Lengths lengths(1 + dice() % 20);
    for (int64_t& length : lengths) length = 256 + dice() % 12000;
    const FitCost cost = seven_billion();
    int64_t all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    if (all > cost.tokens_per_rank * ranks / 2) continue;
    const GroupPlan plan = group_choice(lengths, ranks, cost);
    std::vector<int> seen;
    double slowest = 0;
    int covered = 0;
    for (const SequenceGroup& group : plan.groups) {
      EXPECT_EQ(group.ranks[0], covered);
      EXPECT_EQ(group.ranks[0] % group.ranks.size(), 0);
      covered += group.ranks.size();
      double ms = group.sequences.empty() ? 0 : cost.constant;
      int64_t tokens = 0;
      for (const int s : group.sequences) {
        ms += cost.sequence_ms(lengths[size_t(s)], group.ranks.size());
        tokens += lengths[size_t(s)];
      }
      EXPECT_NEAR(ms, group.ms, 1e-6);
      EXPECT_LE(tokens, cost.tokens_per_rank * group.ranks.size());
      slowest = std::max(slowest, ms);
      seen.insert(seen.end(), group.sequences.begin(), group.sequences.end());
    }
    EXPECT_EQ(covered, ranks);
    EXPECT_NEAR(slowest, plan.ms, 1e-6);
    std::sort(seen.begin(), seen.end());
    for (size_t s = 0; s < seen.size(); ++s) EXPECT_EQ(seen[s], int(s));
    EXPECT_EQ(seen.size(), lengths.size());
  }
}

/// The least time over all cuts into powers of two and all placements, by another recursion.
double exhaustive(const Lengths& lengths, int ranks, const FitCost& cost) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> sizes;
  const std::function<void(int)> cut = [&](int rest) {
    if (rest > 0) {
      for (int size = 1; size <= rest; size *= 2) {
        if (!sizes.empty() && size > sizes.back()) continue;
        sizes.push_back(size);
        cut(rest - size);
        sizes.pop_back();
      }
      return;
    }
    size_t ways = 1;
    for (size_t s = 0; s < lengths.size(); ++s) ways *= sizes.size();
    for (size_t way = 0; way < ways; ++way) {
      std::vector<double> ms(sizes.size(), 0);
      size_t code = way;
      for (const int64_t length : lengths) {
        double& own = ms[code % sizes.size()];
        own =
            (own == 0 ? cost.constant : own) + cost.sequence_ms(length, sizes[code % sizes.size()]);
        code /= sizes.size();
      }
      best = std::min(best, *std::max_element(ms.begin(), ms.end()));
    }
  };
  cut(ranks);
  return best;
}

TEST(RuntimeGroupChoice, FewSequencesArePlacedAsWellAsCanBe) {
  std::mt19937 dice(6);
  for (int i = 0; i < 30; ++i) {
    Lengths lengths(1 + dice() % 5);
    for (int64_t& length : lengths) length = 256 + dice() % 3000;
    const int ranks = 1 << (dice() % 3);
    EXPECT_NEAR(group_choice(lengths, ranks, seven_billion()).ms,
                exhaustive(lengths, ranks, seven_billion()), 1e-6);
  }
}

// W5: 64 ranks.
TEST(RuntimeGroupChoice, PlansSixtyFourRanks) {
  FitCost cost = seven_billion();
  cost.bandwidth = {154, 137, 121, 8.7, 8.7, 8.7};
  std::mt19937 dice(2);
  Lengths lengths(128);
  for (int64_t& length : lengths)
    length = 256 + int64_t(dice() % 64) * (dice() % 8 == 0 ? 700 : 60);
  const auto begin = std::chrono::steady_clock::now();
  const GroupPlan plan = group_choice(lengths, 64, cost);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("W5 group choice, 128 sequences, 64 ranks: %.1f ms, %zu groups\n", took.count(),
              plan.groups.size());
}

/// The fewest micro-batches into which the batch fits, by trying every way to cut it.
size_t fewest_cuts(const Lengths& sorted, int ranks, const FitCost& cost) {
  const size_t n = sorted.size();
  std::vector<size_t> fewest(n + 1, n + 1);
  fewest[0] = 0;
  for (size_t end = 1; end <= n; ++end) {
    for (size_t begin = 0; begin < end; ++begin) {
      try {
        const auto first = sorted.begin() + std::ptrdiff_t(begin);
        group_choice(Lengths(first, sorted.begin() + std::ptrdiff_t(end)), ranks, cost);
        fewest[end] = std::min(fewest[end], fewest[begin] + 1);
      } catch (const Error&) {
      }
    }
  }
  return fewest[n];
}

// 3.12 (b): sorted, contiguous, until all fit.
TEST(RuntimeGroupChoice, ABatchIsSplitIntoMicroBatchesThatFit) {
  std::mt19937 dice(8);
  for (int i = 0; i < 40; ++i) {
    FitCost cost = seven_billion();
    cost.tokens_per_rank = 2048;
    Lengths lengths(2 + dice() % 6);
    for (int64_t& length : lengths) length = 256 + dice() % 7000;
    const BatchPlan batch = split_batch(lengths, 4, cost);
    std::vector<int> seen;
    double ms = 0;
    for (const GroupPlan& plan : batch.micro_batches) {
      ms += plan.ms;
      for (const SequenceGroup& group : plan.groups) {
        int64_t tokens = 0;
        for (const int sequence : group.sequences) tokens += lengths[size_t(sequence)];
        EXPECT_LE(tokens, cost.tokens_per_rank * group.ranks.size());
        seen.insert(seen.end(), group.sequences.begin(), group.sequences.end());
      }
    }
    EXPECT_DOUBLE_EQ(batch.ms, ms);
    std::sort(seen.begin(), seen.end());
    std::vector<int> all(lengths.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
    Lengths sorted = lengths;
    std::sort(sorted.begin(), sorted.end());
    const size_t fewest = fewest_cuts(sorted, 4, cost);
    EXPECT_GE(batch.micro_batches.size(), fewest);
    EXPECT_LE(batch.micro_batches.size(), fewest + 1);  // even cuts are not always the fewest
    EXPECT_GE(split_batch(lengths, 4, cost, 2).micro_batches.size(), 2u);
  }
  FitCost cost = seven_billion();
  cost.tokens_per_rank = 10;
  EXPECT_INFEASIBLE(split_batch(Lengths{5, 41}, 4, cost), "sequence 1 has 41 tokens");
  EXPECT_REFUSED(split_batch(Lengths{5}, 4, cost, 0), "give 1 or more");
}

// 3.12 (e), S2.
TEST(RuntimeGroupChoice, BucketsHaveTheLeastError) {
  EXPECT_EQ(bucket_lengths(Lengths{1, 2, 9, 10}, 2).error, 2);
  const LengthBuckets three = bucket_lengths(Lengths{4, 4, 8, 8, 32, 64}, 3);
  EXPECT_EQ(three.error, 8);
  EXPECT_EQ(three.bounds, (Lengths{8, 32, 64}));
  EXPECT_EQ(bucket_lengths(Lengths{7, 3}, 9).error, 0);
}

// 3.11 (b), (e): a step hides its transfer from s = G * kv / (c * B) on, and zones rise with s.
TEST(RuntimeZones, SequencesGoWhereTheirStepsHideTheirTransfers) {
  ZoneCost cost;
  cost.pair_ns = 0.5;
  cost.keys_and_values = Bytes(4096);
  cost.intra.bytes_per_ns = 200;
  cost.nic.bytes_per_ns = 25;
  cost.ranks_per_node = 8;
  cost.nodes = 4;
  const ZoneBounds bounds = zone_bounds(cost);
  EXPECT_EQ(bounds.node, 328);       // 8 * 4096 / (0.5 * 200) = 327.68
  EXPECT_EQ(bounds.between, 10486);  // 32 * 4096 / (0.5 * 25) = 10485.76
  for (int64_t s = 1; s < 20000; ++s) {
    ASSERT_GE(zone_of(s + 1, bounds), zone_of(s, bounds));
    const double share = double(s) / 8;
    const bool hides = 0.5 * share * share >= 4096 * share / 200;
    ASSERT_EQ(hides, zone_of(s, bounds) != Zone::kLocal) << s;
  }
  EXPECT_EQ(zone_order(Lengths{10, 400, 20000, 500, 11000, 20}, bounds),
            (std::vector<int>{2, 4, 3, 1, 5, 0}));
  cost.nodes = 1;
  EXPECT_EQ(zone_bounds(cost).between, kNoLimit);
  cost.pair_ns = 0;
  EXPECT_REFUSED(zone_bounds(cost), "give more than 0");
}

// 3.12 (f).
TEST(RuntimeGroupChoice, RefusesWhatCannotBeGrouped) {
  const FitCost cost = seven_billion();
  EXPECT_REFUSED(group_choice(Lengths{5}, 12, cost), "a power of two");
  EXPECT_REFUSED(group_choice(Lengths{0}, 8, cost), "1 or more");
  EXPECT_REFUSED(group_choice(Lengths{}, 8, cost), "at least one");
  EXPECT_REFUSED(group_choice(Lengths{5}, 32, cost), "give one each for 2, 4 ... 32");
  FitCost unsorted = cost;
  std::swap(unsorted.bandwidth[0], unsorted.bandwidth[3]);
  EXPECT_REFUSED(group_choice(Lengths{5}, 16, unsorted), "sort the table");
  EXPECT_INFEASIBLE(group_choice(Lengths{16384 * 16 + 1}, 16, cost), "shorten it");
  EXPECT_INFEASIBLE(group_choice(Lengths(9, 16384), 8, cost), "several micro-batches");
  EXPECT_REFUSED(bucket_lengths(Lengths{1}, 0), "1 or more");
}

// 3.11 (e), Z1.
TEST(RuntimeRouted, FourProxiesTakeWhatThePaperSays) {
  const LinkClass nic{Nanoseconds(0), 25}, intra{Nanoseconds(0), 200};
  const Bytes message(64'000'000);
  EXPECT_EQ(routed_time(message, 1, nic, intra), Nanoseconds(2'560'000));
  EXPECT_EQ(routed_time(message, 2, nic, intra), Nanoseconds(1'600'000));
  EXPECT_EQ(routed_time(message, 4, nic, intra), Nanoseconds(1'120'000));
  EXPECT_EQ(routed_time(message, 8, nic, intra), Nanoseconds(880'000));
}

TEST(RuntimeRouted, BringsTheSameElementsOverEveryCard) {
  const Resharding plain =
      reshard(ragged(480, std::vector<int64_t>{1, 4, 2, 1}, 1), zigzag(480, 4));
  for (const int proxies : {1, 2}) {
    const RoutedResharding steps = routed(plain, {2, 2}, proxies);
    for (const Parcel& p : steps.cross.parcels) EXPECT_NE(p.source / 2, p.target / 2);
    for (const Parcel& p : steps.dispatch.parcels) EXPECT_EQ(p.source / 2, p.target / 2);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      const auto sized = [](int64_t n) { return std::vector<int32_t>(size_t(n), -1); };
      auto source = sized(plain.source_sizes[size_t(rank)]),
           expected = sized(plain.target_sizes[size_t(rank)]);
      for (size_t i = 0; i < source.size(); ++i) source[i] = rank * 1000 + int(i);
      auto target = expected, out = sized(steps.dispatch.target_sizes[size_t(rank)]),
           in = sized(steps.cross.target_sizes[size_t(rank)]);
      Exchange(plain, Bytes(4)).run(comm, source.data(), expected.data());
      Exchange(steps.direct, Bytes(4)).run(comm, source.data(), target.data());
      Exchange(steps.dispatch, Bytes(4)).run(comm, source.data(), out.data());
      Exchange(steps.cross, Bytes(4)).run(comm, out.data(), in.data());
      Exchange(steps.combine, Bytes(4)).run(comm, in.data(), target.data());
      EXPECT_EQ(target, expected);
    });
  }
  // One message of a node leaves by both cards, half each.
  const Resharding one{4, {10, 0, 0, 0}, {0, 0, 10, 0}, {{0, 2, 0, 0, 10}}};
  EXPECT_EQ(routed(one, {2, 2}, 2).cross.source_sizes, (std::vector<int64_t>{5, 5, 0, 0}));
  EXPECT_REFUSED(routed(one, {2, 1}, 2), "2 proxies for 1 cards");
  EXPECT_REFUSED(routed(one, {2, 4}, 3), "3 proxies for 2 cards that ranks of a node use");
  EXPECT_REFUSED(routed(one, {3, 1}, 1), "not whole nodes");
}

TEST(RuntimeRouted, ProxiesHaveDifferentCards) {
  Resharding message{16, std::vector<int64_t>(16, 0), std::vector<int64_t>(16, 0), {}};
  message.source_sizes[3] = message.target_sizes[9] = 400;
  message.parcels = {{3, 9, 0, 0, 400}};
  const NodeShape by_twos{8, 4, {}}, crossed{8, 4, {0, 1, 2, 3, 0, 1, 2, 3}};
  for (const NodeShape& shape : {by_twos, crossed}) {
    const auto card = [&](int rank) {
      return shape.card_of.empty() ? rank % 8 / 2 : shape.card_of[size_t(rank % 8)];
    };
    for (const int proxies : {1, 2, 3, 4}) {
      std::set<int> out, in;
      for (const Parcel& piece : routed(message, shape, proxies).cross.parcels) {
        out.insert(card(piece.source));
        in.insert(card(piece.target));
      }
      EXPECT_EQ(std::ssize(out), proxies);
      EXPECT_EQ(std::ssize(in), proxies);
    }
    EXPECT_REFUSED(routed(message, shape, 5), "5 proxies for 4 cards");
  }
  EXPECT_REFUSED(routed(message, {8, 4, {0, 1}}, 2), "the cards of 2 places");
  EXPECT_REFUSED(routed(message, {8, 2, {0, 1, 2, 0, 1, 0, 1, 0}}, 2),
                 "place 2 of a node has card 2");
  // Both ranks of a card send: their pieces do not all go through one rank of the next card.
  message.source_sizes[2] = message.target_sizes[8] = 400;
  message.parcels.push_back({2, 8, 0, 0, 400});
  EXPECT_EQ(routed(message, by_twos, 2).cross.source_sizes,
            (std::vector<int64_t>{0, 0, 200, 200, 200, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_REFUSED(
      routed(Resharding{4, {9, 9, 9, 9}, {9, 9, 9, 9}, {{0, 70000, 0, 0, 5}}}, {2, 2}, 2),
      "a parcel from rank 0 to 70000");
}

TEST(RuntimeRemap, MeetsWhatIsWantedWithTheLeastBetweenNodes) {
  std::mt19937 dice(4);
  for (int i = 0; i < 200; ++i) {
    const int nodes = 1 + int(dice() % 3), per_node = 1 + int(dice() % 3), ranks = nodes * per_node;
    std::vector<int64_t> have(static_cast<size_t>(ranks)), want(have.size(), 0);
    int64_t all = 0;
    for (int64_t& tokens : have) all += tokens = dice() % 40;
    for (int64_t t = 0; t < all; ++t) ++want[dice() % want.size()];
    const Resharding plan = remap(have, want, per_node);
    std::vector<int64_t> sent(have.size(), 0), got(have.size(), 0);
    int64_t crossing = 0, least = 0;
    for (const Parcel& p : plan.parcels) {
      got[size_t(p.target)] += p.length;
      sent[size_t(p.source)] += p.length;
      if (p.source / per_node != p.target / per_node) crossing += p.length;
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(sent, have);
    for (int n = 0; n < nodes; ++n) {
      int64_t surplus = 0;
      for (int r = n * per_node; r < (n + 1) * per_node; ++r)
        surplus += have[size_t(r)] - want[size_t(r)];
      least += std::max<int64_t>(0, surplus);
    }
    EXPECT_EQ(crossing, least);
    EXPECT_NO_THROW(Exchange(plan, Bytes(1)));  // no place twice, none beyond a buffer
  }
  EXPECT_REFUSED(remap(std::vector<int64_t>{1, 2}, std::vector<int64_t>{2, 2}, 1),
                 "neither makes nor drops");
  EXPECT_REFUSED(remap(std::vector<int64_t>{-1, 2}, std::vector<int64_t>{0, 1}, 1), "0 or more");
}

TEST(RuntimeRemap, AndItsReverseIsTheIdentity) {
  const std::vector<int64_t> have{30, 2, 0, 8}, want{10, 10, 10, 10};
  const Resharding there = remap(have, want, 2), back = reverse(there);
  run_ranks(4, [&](tuttiComm_t comm, int rank) {
    std::vector<int32_t> tokens(size_t(have[size_t(rank)])), balanced(10), again(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = rank * 100 + int(i);
    Exchange(there, Bytes(4)).run(comm, tokens.data(), balanced.data());
    Exchange(back, Bytes(4)).run(comm, balanced.data(), again.data());
    EXPECT_EQ(again, tokens);
  });
}

}  // namespace
}  // namespace tutti::runtime
