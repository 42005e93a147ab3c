// Mesh, sharding and resharding are pure: the numbers of training_systems 2, 3.1, 3.5, 3.9, 3.10.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/mesh.h"
#include "tutti/runtime/reshard.h"

namespace tutti::runtime {
namespace {

using Names = std::vector<std::string>;
using Units = std::vector<int64_t>;

std::string texts(const std::vector<RankSet>& groups) {
  std::string text;
  for (const RankSet& group : groups) text += group.text();
  return text;
}

Mesh attention_mesh() { return Mesh({{"tp", 2}, {"cp", 2}, {"dp", 1}, {"pp", 2}}); }

// 3.5, F1.
TEST(RuntimeMesh, GroupsOfEightRanksAndTheirFolding) {
  const Mesh mesh = attention_mesh();
  EXPECT_EQ(texts(mesh.groups(Names{"tp"})), "{0, 1}{2, 3}{4, 5}{6, 7}");
  EXPECT_EQ(texts(mesh.groups(Names{"cp"})), "{0, 2}{1, 3}{4, 6}{5, 7}");
  EXPECT_EQ(texts(mesh.groups(Names{"pp"})), "{0, 4}{1, 5}{2, 6}{3, 7}");
  const Mesh moe = mesh.fold({{"etp", 1}, {"ep", 4}, {"edp", 1}, {"pp", 2}}, Names{"pp"});
  EXPECT_EQ(texts(moe.groups(Names{"ep"})), "{0, 1, 2, 3}{4, 5, 6, 7}");
  EXPECT_EQ(moe.groups(Names{"pp"}), mesh.groups(Names{"pp"}));
}

TEST(RuntimeMesh, EightContextAndEightExpertRanksShareEightRanks) {
  const Mesh folded = Mesh({{"cp", 8}}).fold({{"ep", 8}}, {});
  EXPECT_EQ(folded.ranks(), 8);
  EXPECT_EQ(Mesh({{"cp", 8}, {"ep", 8}}).ranks(), 64);
}

TEST(RuntimeMesh, GroupsPartitionTheRanksAndCoordinatesComeBack) {
  const Mesh mesh({{"a", 3}, {"b", 2}, {"c", 4}});
  for (const Names& axes : {Names{}, Names{"a"}, Names{"c", "a"}, Names{"a", "b", "c"}}) {
    std::vector<int> all;
    for (const RankSet& group : mesh.groups(axes)) {
      all.insert(all.end(), group.ranks().begin(), group.ranks().end());
      for (const int rank : group.ranks()) EXPECT_EQ(mesh.group(axes, rank), group);
    }
    std::sort(all.begin(), all.end());
    std::vector<int> expected(24);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(mesh.rank_of(mesh.coordinates_of(rank)), rank);
}

TEST(RuntimeMesh, RefusesWhatCannotBeAMesh) {
  EXPECT_REFUSED(Mesh({{"tp", 0}}), "give 1 or more");
  EXPECT_REFUSED(Mesh({{"tp", 2}, {"tp", 2}}), "rename one");
  EXPECT_REFUSED(attention_mesh().groups(Names{"ep"}), "its axes are tp, cp, dp, pp");
  EXPECT_REFUSED(attention_mesh().coordinates_of(8), "not in a mesh of 8");
  EXPECT_REFUSED(attention_mesh().fold({{"ep", 3}, {"pp", 2}}, Names{"pp"}), "multiply to 6");
  EXPECT_REFUSED(attention_mesh().fold({{"pp", 2}, {"ep", 4}}, Names{"pp"}), "same place");
  EXPECT_REFUSED(attention_mesh().fold({{"ep", 2}, {"pp", 4}}, Names{"pp"}), "one size");
  EXPECT_REFUSED(RankSet({}), "at least one");
  EXPECT_REFUSED(RankSet({1, 0, 1}), "name each rank once");
  EXPECT_REFUSED(RankSet({-1}), "negative");
}

TEST(RuntimeSharding, RaggedSharesFollowUnitsAndNeverSplitABlock) {
  const Sharding s = ragged(24, Units{1, 0, 2}, 4);
  EXPECT_EQ(s.shards, (std::vector<Shard>{{0, 0, 8}, {2, 8, 16}}));
  EXPECT_EQ(s.local_size(1), 0);
}

TEST(RuntimeSharding, RefusesWhatItCannotCut) {
  EXPECT_REFUSED(ragged(24, Units{1, -1}, 1), "negative");
  EXPECT_REFUSED(ragged(24, Units{0, 0}, 1), "all units are 0");
  EXPECT_REFUSED(ragged(25, Units{1, 1}, 1), "change the units or pad");
  EXPECT_REFUSED(ragged(24, Units{1, 1}, 8), "no multiple of the block 8");
  EXPECT_REFUSED(ragged(24, Units{1, 1}, 0), "not positive");
  EXPECT_REFUSED(even(10, 4), "pad them, or use ragged()");
  EXPECT_REFUSED(zigzag(12, 4), "two a rank");
  EXPECT_REFUSED(striped(100, 4, 64), "does not divide 100");
  EXPECT_REFUSED(single_root(4, 2, 2), "not one of 2 ranks");
  EXPECT_REFUSED(blocks(Units{5}, 2, std::vector<int>{0, 1}, 2), "give one a block");
  EXPECT_REFUSED(blocks(Units{5}, 2, std::vector<int>{0, 1, 2}, 2), "owned by rank 2");
  EXPECT_REFUSED(from_counts(Units{1, 2, 3}, 2, RoutedSide::kSource), "each source and target");
  EXPECT_REFUSED(contiguous(Units{INT64_MAX, 1}), "beyond 2^63 - 1");
  EXPECT_REFUSED(validate({2, 4, 1, 1, {{0, 0, 2}}}), "held by nobody");
  EXPECT_REFUSED(validate({2, 4, 1, 1, {{0, 0, 3}, {1, 2, 2}}}), "held by 2 ranks");
  EXPECT_REFUSED(validate({2, 4, 1, 2, {{0, 0, 3}, {0, 2, 2}}}), "twice");
  EXPECT_REFUSED(validate({2, 4, 1, 1, {{0, 0, 5}}}), "leaves a sequence");
}

// Section 2: head and tail together are equal causal work for every rank.
TEST(RuntimeSharding, ZigzagGivesEveryRankEqualCausalWork) {
  const Sharding s = zigzag(64, 4);
  std::vector<int64_t> work(4, 0);
  for (const Shard& shard : s.shards) {
    for (int64_t i = 0; i < shard.length; ++i) work[size_t(shard.rank)] += shard.begin + i + 1;
  }
  EXPECT_EQ(work, (std::vector<int64_t>(4, 64 * 65 / 2 / 4)));
}

TEST(RuntimeSharding, ZigzagByWeightGivesTheHeaviestInTurn) {
  const Sharding s = zigzag_by_weight(8, 2, Units{1, 4, 3, 2}, 2);
  EXPECT_EQ(s.shards, (std::vector<Shard>{{0, 0, 4}, {1, 4, 4}}));  // 4 | 3 2 | 1
  EXPECT_REFUSED(zigzag_by_weight(8, 3, Units{1, 2}, 2), "2 weights for 3 blocks");
  EXPECT_REFUSED(zigzag_by_weight(8, 0, Units{1, 2}, 2), "blocks of 1 or more");
}

/// One sharding of every kind, over the same 48 elements and 4 ranks.
std::vector<Sharding> every_sharding() {
  return {
      even(48, 4),
      ragged(48, Units{3, 0, 1, 2}, 4),
      blocks(Units{20, 9, 19}, 8, std::vector<int>{3, 1, 0, 0, 2, 1, 3, 2}, 4),
      zigzag(48, 4),
      striped(48, 4, 4),
      contiguous(Units{5, 0, 40, 3}),
      replicated(48, 4),
      single_root(48, 4, 2),
      from_counts(Units{3, 3, 3, 3, 0, 12, 0, 0, 6, 0, 6, 0, 1, 2, 3, 6}, 4, RoutedSide::kSource),
      from_counts(Units{3, 3, 3, 3, 0, 12, 0, 0, 6, 0, 6, 0, 1, 2, 3, 6}, 4, RoutedSide::kTarget)};
}

/// The local buffers of a sharding of the sequence 0, 1, 2 ...
std::vector<std::vector<int64_t>> buffers_of(const Sharding& s) {
  std::vector<std::vector<int64_t>> buffers(static_cast<size_t>(s.ranks));
  for (const Shard& shard : s.shards) {
    for (int64_t i = 0; i < shard.length; ++i) {
      buffers[size_t(shard.rank)].push_back(shard.begin + i);
    }
  }
  return buffers;
}

TEST(RuntimeReshard, EveryShardingBecomesEveryOther) {
  for (const Sharding& from : every_sharding()) {
    validate(from);
    for (const Sharding& to : every_sharding()) {
      const Resharding plan = reshard(from, to);
      const auto source = buffers_of(from);
      const auto expected = buffers_of(to);
      std::vector<std::vector<int64_t>> got(4);
      for (int r = 0; r < 4; ++r) got[size_t(r)].assign(expected[size_t(r)].size(), -1);
      for (const Parcel& p : plan.parcels) {
        for (int64_t i = 0; i < p.length; ++i) {
          int64_t& place = got[size_t(p.target)][size_t(p.target_offset + i)];
          EXPECT_EQ(place, -1);
          place = source[size_t(p.source)][size_t(p.source_offset + i)];
        }
      }
      EXPECT_EQ(got, expected);
      EXPECT_EQ(reshard(from, to), plan);
      Resharding back = reverse(reverse(plan));
      EXPECT_EQ(back, plan);
    }
    EXPECT_EQ(moved(reshard(from, from)), 0);
  }
}

// 3.1: a checkpoint of four ranks is read by three.
TEST(RuntimeReshard, NumbersOfRanksMayDiffer) {
  const Resharding plan = reshard(even(12, 4), even(12, 3));
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.target_sizes, (Units{4, 4, 4, 0}));
  EXPECT_EQ(plan.parcels.size(), 6u);
  EXPECT_REFUSED(reshard(even(12, 4), even(8, 4)), "same sequence");
}

std::vector<Parcel> edges(const std::vector<std::pair<int, int>>& pairs) {
  std::vector<Parcel> parcels;
  for (const auto& [source, target] : pairs) parcels.push_back({source, target, 0, 0, 1});
  return parcels;
}

void expect_congestion_free(const std::vector<Parcel>& parcels, int ranks) {
  const Rounds rounds = congestion_free(parcels, ranks);
  ASSERT_EQ(static_cast<int>(rounds.size()), max_degree(parcels, ranks));
  std::vector<int> seen(parcels.size(), 0);
  for (const auto& round : rounds) {
    std::vector<int> sends(size_t(ranks), 0), receives(size_t(ranks), 0);
    for (const int i : round) {
      ++seen[size_t(i)];
      EXPECT_EQ(++sends[size_t(parcels[size_t(i)].source)], 1);
      EXPECT_EQ(++receives[size_t(parcels[size_t(i)].target)], 1);
    }
  }
  for (size_t i = 0; i < parcels.size(); ++i) {
    EXPECT_EQ(seen[i], parcels[i].source != parcels[i].target ? 1 : 0);
  }
}

// Section 2, P1: peeling off maximum matchings may take three rounds here.
TEST(RuntimeRounds, TheGraphThatFoolsMaximumMatchingsTakesTwo) {
  expect_congestion_free(edges({{1, 0}, {1, 4}, {2, 4}, {2, 5}}), 6);
  EXPECT_EQ(congestion_free(edges({{1, 0}, {1, 4}, {2, 4}, {2, 5}}), 6).size(), 2u);
}

TEST(RuntimeRounds, AreAsManyAsTheLargestDegreeOnRandomMultigraphs) {
  std::mt19937 dice(7);
  for (int graph = 0; graph < 500; ++graph) {
    const int ranks = 1 + static_cast<int>(dice() % 12);
    std::vector<std::pair<int, int>> pairs(dice() % 80);
    for (auto& [s, t] : pairs)
      s = int(dice()) & 0xff, t = int(dice()) & 0xff, s %= ranks, t %= ranks;
    expect_congestion_free(edges(pairs), ranks);
  }
}

// W5: 256 ranks of which each sends 64 parcels to anybody.
TEST(RuntimeRounds, ColoursLargeGraphs) {
  std::mt19937 dice(12);
  std::vector<std::pair<int, int>> pairs;
  for (int rank = 0; rank < 256; ++rank) {
    for (int i = 0; i < 64; ++i) pairs.emplace_back(rank, int(dice() % 256));
  }
  const std::vector<Parcel> parcels = edges(pairs);
  const auto begin = std::chrono::steady_clock::now();
  const size_t rounds = congestion_free(parcels, 256).size();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("W5 colouring of %zu parcels, 256 ranks: %.1f ms, %zu rounds\n", parcels.size(),
              took.count(), rounds);
  EXPECT_EQ(int(rounds), max_degree(parcels, 256));
}

TEST(RuntimeRounds, RefusesAParcelOfNoRank) {
  EXPECT_REFUSED(congestion_free(edges({{0, 3}}), 3), "leaves 3 ranks");
}

// 3.1 (b): Shard(0) of tensor parallelism, and ragged shares of each part over the other axis.
TEST(RuntimeSharding, RaggedSharesOfEvenPartsAreStrided) {
  const Sharding strided = ragged_in_parts(32, 2, Units{1, 3}, 4);
  validate(strided);
  EXPECT_EQ(strided.shards, (std::vector<Shard>{{0, 0, 4}, {2, 4, 12}, {1, 16, 4}, {3, 20, 12}}));
  EXPECT_EQ(ragged_in_parts(32, 1, Units{1, 3}, 4), ragged(32, Units{1, 3}, 4));
  // A resharding to the plain order is a permutation, and its reverse undoes it.
  const Resharding plan = reshard(strided, even(32, 4));
  EXPECT_EQ(moved(reverse(plan)), moved(plan));
  EXPECT_REFUSED(ragged_in_parts(33, 2, Units{1, 3}, 4), "not a multiple of 2 parts");
  EXPECT_REFUSED(ragged_in_parts(16, 2, Units{1, 3}, 4), "no multiple of the block");
}

}  // namespace
}  // namespace tutti::runtime
