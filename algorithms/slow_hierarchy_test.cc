#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "algorithms/trees_test.h"
#include "tests/support/sanitizer.h"

namespace tutti::algorithms {
namespace {

using namespace trees_test;

void prove_many(int trees, int least_ranks, int most_ranks, bool hazards) {
  const auto start = std::chrono::steady_clock::now();
  RandomTrees random(2026);
  Tally tally;
  for (int i = 0; i < trees && !testing::Test::HasFailure(); ++i) {
    const NodeTreePointer tree = random.make(least_ranks, most_ranks, 5);
    prove(tree, random.pick(0, tree->ranks() - 1), hazards, tally);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf(
      "%d trees of %d..%d ranks, %d proofs%s, %d trees with rounded shares, least credit up "
      "to %u, in %.1f s\n",
      tally.trees, least_ranks, most_ranks, tally.proofs,
      hazards ? "" : " (the hazard pass is left out)", tally.rounded, tally.most_credit,
      took.count());
  EXPECT_EQ(tally.trees, trees);
}

constexpr int kShare = testing_support::kSanitized ? 10 : 1;

// Suites of their own: one may take half an hour, on a machine that does other things too.
TEST(HierarchyOnSmallTrees, IsProved) { prove_many(260 / kShare, 2, 32, true); }

TEST(HierarchyOnMiddleTrees, IsProved) { prove_many(40 / kShare, 33, 64, true); }

TEST(HierarchyOnLargeTrees, IsProved) { prove_many(20 / kShare, 65, 256, false); }

}  // namespace
}  // namespace tutti::algorithms
