// For tests: the proofs and formulas of every algorithm that crosses the levels of a tree.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shares.h"
#include "src/registry/algorithms.h"
#include "src/schedule/verify.h"
#include "tools/verifier/trees.h"

namespace tutti::algorithms::trees_test {

using namespace schedule;

/// The product of the numbers of children on the way to a node, and the most children at a level.
inline uint64_t product_above(const NodeTree& tree, size_t level, uint32_t node) {
  uint64_t product = 1;
  const int rank = tree.ranks_of(level, node)[0];
  for (size_t above = level + 1; above < tree.levels(); ++above) {
    product *= tree.children_of(above, tree.node_of(above, rank)).size();
  }
  return product;
}

inline uint32_t most_children(const NodeTree& tree, size_t level) {
  size_t most = 0;
  for (uint32_t node = 0; node < tree.nodes(level); ++node) {
    most = std::max(most, tree.children_of(level, node).size());
  }
  return static_cast<uint32_t>(most);
}

struct Tally {
  int trees = 0, rounded = 0, proofs = 0;
  uint32_t most_credit = 0;
};

inline uint32_t rounds_at(const NodeTree& tree, size_t level, bool halves) {
  const uint32_t children = most_children(tree, level);
  if (children == 1) return 0;
  return halves ? static_cast<uint32_t>(patterns::doubling_rounds(static_cast<int>(children))) : 1;
}

/// Whether the outermost nodes fold and spread in one exchange, in place of two.
inline bool has_middle(const Algorithm& algorithm) {
  return algorithm.name == "hierarchical_one_shot" || algorithm.name == "hierarchical_doubling";
}

/// Rounds of that exchange among so many children.
inline uint32_t middle_rounds(const Algorithm& algorithm, uint32_t children) {
  if (children == 1) return 0;
  if (algorithm.name == "hierarchical_one_shot") return 1;
  const int rounds = patterns::doubling_rounds(static_cast<int>(children));
  return static_cast<uint32_t>(rounds) + (2 * children > 3 * std::bit_floor(children) ? 1 : 0);
}

/// Whole shares that a child sends in it, and receives.
inline uint32_t middle_shares(const Algorithm& algorithm, uint32_t children, uint32_t child) {
  if (algorithm.name == "hierarchical_one_shot") return children - 1;
  const uint32_t places = std::bit_floor(children), pairs = children - places;
  if (child >= 2 * pairs) return static_cast<uint32_t>(std::countr_zero(places));
  return child % 2 == 1 ? 1 : static_cast<uint32_t>(std::countr_zero(places)) + 1;
}

/// Messages of each level in the longest chain: that many, or fewer where parts are so few that
/// some messages have nothing to bring.
inline void expect_depths(const Algorithm& algorithm, const NodeTree& tree, const LevelLoads& loads,
                          bool exact) {
  const Collective collective = algorithm.collective;
  const bool halves = algorithm.name == "hierarchical" && collective != Collective::kAllToAll;
  const bool both_ways = collective == Collective::kAllReduce ||
                         collective == Collective::kBroadcast || collective == Collective::kReduce;
  const bool moves_all = collective == Collective::kAllReduce && exact;
  for (size_t level = 0; level < tree.levels(); ++level) {
    uint32_t depth = (both_ways ? 2 : 1) * rounds_at(tree, level, halves);
    if (has_middle(algorithm) && level + 1 == tree.levels()) {
      depth = middle_rounds(algorithm, most_children(tree, level));
    }
    if (moves_all || collective == Collective::kBarrier || collective == Collective::kAllToAll) {
      EXPECT_EQ(loads.depth[level], depth) << "level " << level;
    } else {
      EXPECT_LE(loads.depth[level], depth) << "level " << level;
    }
  }
}

/// The bytes of an all_reduce over the cut of a node, in either direction: the formula of shares,
/// where the outermost nodes exchange whole shares what that brings.
inline Fraction all_reduce_bytes(const Algorithm& algorithm, const NodeTree& tree, size_t level,
                                 uint32_t node) {
  const uint64_t product = product_above(tree, level, node);
  const size_t top = tree.levels() - 1;
  if (!has_middle(algorithm) || level == top) return Fraction::of(2 * (product - 1), product);
  const auto tops = static_cast<uint32_t>(tree.children_of(top, 0).size());
  const uint32_t child = tree.child_of(top, tree.ranks_of(level, node)[0]);
  const uint64_t below = product / tops;  // 2 * (1 - 1 / below) + shares / below
  return Fraction::of(2 * (below - 1) + middle_shares(algorithm, tops, child), below);
}

/// An all_to_all brings as much into a node as out of it: what its ranks have for others, and what
/// they pass on, which is nothing at the outermost nodes.
inline void expect_all_to_all(const NodeTree& tree, size_t level, uint32_t node,
                              const CutLoad& cut) {
  const auto ranks = static_cast<uint64_t>(tree.ranks());
  const uint64_t below = tree.ranks_of(level, node).size(), own = below * (ranks - below);
  EXPECT_EQ(cut.out, cut.in);
  EXPECT_GE(cut.out.num, own * cut.out.den);
  if (level + 2 >= tree.levels()) {
    EXPECT_EQ(cut.out, Fraction::of(own, 1));
  }
}

/// The promise over every cut follows from the tree alone.
inline void expect_formulas(const Algorithm& algorithm, const NodeTree& tree, int root,
                            const LevelLoads& loads, bool exact) {
  expect_depths(algorithm, tree, loads, exact);
  const auto ranks = static_cast<uint64_t>(tree.ranks());
  for (size_t level = 0; level < tree.levels(); ++level) {
    for (uint32_t node = 0; node < tree.nodes(level); ++node) {
      const CutLoad& cut = loads.cuts[level][node];
      const uint64_t below = tree.ranks_of(level, node).size();
      const Fraction once = Fraction::of(tree.node_of(level, root) == node ? 0 : 1, 1);
      if (algorithm.collective == Collective::kReduceScatter) {
        EXPECT_EQ(cut.out, Fraction::of(ranks - below, 1));
      } else if (algorithm.collective == Collective::kAllGather) {
        EXPECT_EQ(cut.in, Fraction::of(ranks - below, 1));
      } else if (algorithm.collective == Collective::kAllReduce && exact) {
        EXPECT_EQ(cut.out, all_reduce_bytes(algorithm, tree, level, node));
        EXPECT_EQ(cut.in, cut.out);
      } else if (algorithm.collective == Collective::kBroadcast) {
        EXPECT_EQ(cut.in, once);
      } else if (algorithm.collective == Collective::kReduce) {
        EXPECT_EQ(cut.out, once);
      } else if (algorithm.collective == Collective::kAllToAll) {
        expect_all_to_all(tree, level, node, cut);
      } else if (algorithm.collective == Collective::kBarrier) {
        EXPECT_EQ(cut, CutLoad{});
      }
    }
  }
}

/// Proves every algorithm that declares loads; `hazards` as for verify().
inline void prove(const NodeTreePointer& tree, int root, bool hazards, Tally& tally) {
  SCOPED_TRACE(print(*tree));
  const bool exact = patterns::Shares::equal(tree).exact();
  ++tally.trees;
  if (!exact) ++tally.rounded;
  for (const Algorithm& algorithm : registry::algorithms()) {
    if (algorithm.loads == nullptr) continue;
    SCOPED_TRACE(std::string(name_of(algorithm.collective)) + "/" + std::string(algorithm.name));
    const Parameters p{.ranks = tree->ranks(), .root = root, .fold = Fold::kTree, .tree = tree};
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < p.ranks; ++rank) schedules.push_back(algorithm.schedule(p, rank));
    const Cost cost = algorithm.cost(p);
    const LevelLoads loads = algorithm.loads(p);
    VerifyOptions options;
    options.declared = &cost;
    options.tree = tree.get();
    options.declared_loads = &loads;
    options.hazards = hazards;
    const Placement placements[] = {Placement::kSeparate, Placement::kInPlace};
    const auto verdicts = verify(algorithm.shape(p), schedules,
                                 std::span(placements, algorithm.in_place ? 2 : 1), options);
    for (const Result<Verdict>& verdict : verdicts) {
      ASSERT_TRUE(verdict.ok()) << verdict.status().message();
      EXPECT_TRUE(verdict.value().agrees);
      EXPECT_LE(algorithm.canonical(p), verdict.value().canonical);
      EXPECT_LE(verdict.value().forwards, algorithm.forwards);
      EXPECT_LE(verdict.value().needs_equal_counts, algorithm.needs_equal_counts);
      tally.most_credit = std::max(tally.most_credit, verdict.value().least_credit);
      ++tally.proofs;
    }
    expect_formulas(algorithm, *tree, root, loads, exact);
  }
}

}  // namespace tutti::algorithms::trees_test
