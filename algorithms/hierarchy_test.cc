#include <gtest/gtest.h>

#include "algorithms/trees_test.h"

namespace tutti::algorithms {
namespace {

using namespace trees_test;

// Hosts of 3, 5 and 1 ranks on two sites, ranks in any order.
NodeTreePointer uneven_tree() {
  return NodeTree::make({{0, 1, 0, 1, 1, 2, 0, 1, 1},
                         {0, 0, 0, 0, 0, 1, 0, 0, 0},
                         {0, 0, 0, 0, 0, 0, 0, 0, 0}})
      .value();
}

TEST(Hierarchy, IsProvedOnUnevenTrees) {
  Tally tally;
  prove(uneven_tree(), 4, true, tally);
  RandomTrees trees(1);
  for (int i = 0; i < 12; ++i) prove(trees.make(2, 20, 5), 1, true, tally);
  EXPECT_GT(tally.proofs, 12 * 8);
}

// Runs of four ranks fold in the order of the canonical tree, others do not.
TEST(Hierarchy, IsCanonicalWhereNodesAreAlignedRuns) {
  const Algorithm& direct = *registry::find(Collective::kAllReduce, "hierarchical_direct");
  const Algorithm& halves = *registry::find(Collective::kAllReduce, "hierarchical");
  const auto on = [](std::vector<uint32_t> hosts) {
    const std::vector<uint32_t> network(hosts.size(), 0);
    const auto ranks = static_cast<int>(hosts.size());
    return Parameters{.ranks = ranks,
                      .fold = Fold::kTree,
                      .tree = NodeTree::make({std::move(hosts), network}).value()};
  };
  EXPECT_TRUE(direct.canonical(on({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2})));
  EXPECT_FALSE(halves.canonical(on({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2})));
  EXPECT_FALSE(direct.canonical(on({0, 0, 0, 1, 1, 1})));
  EXPECT_FALSE(direct.canonical(on({0, 1, 0, 1})));
  EXPECT_FALSE(direct.canonical(on({0, 0, 1, 1, 1, 1})));
}

// The declared load of a cut is compared: an algorithm that promises less than it sends is refused.
TEST(Hierarchy, IsRefusedWhereACutCarriesMoreThanDeclared) {
  const Algorithm& flat = *registry::find(Collective::kAllReduce, "circulant");
  const Algorithm& levels = *registry::find(Collective::kAllReduce, "hierarchical");
  const NodeTreePointer tree = NodeTree::make({{0, 0, 1, 1}, {0, 0, 0, 0}}).value();
  const Parameters p{.ranks = 4, .tree = tree};
  const LevelLoads promised = levels.loads(p);
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 4; ++rank) schedules.push_back(flat.schedule(p, rank));
  VerifyOptions options;
  options.tree = tree.get();
  options.declared_loads = &promised;
  const Result<Verdict> verdict = verify(flat.shape(p), schedules, options);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.status().message().find("loads: declared level 0: depth 2, node 0 out 1 in 1"),
            std::string::npos)
      << verdict.status().message();
}

}  // namespace
}  // namespace tutti::algorithms
