// Facts on which algorithms rely when they use a pattern, also for sizes that are too large for the
// verifier.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/halving.h"
#include "algorithms/patterns/hops.h"
#include "algorithms/patterns/ring.h"
#include "algorithms/patterns/tree.h"

namespace tutti::algorithms::patterns {
namespace {

constexpr int kManyRanks = 1000;

// Every child names its parent, and walking up from anywhere ends at one root within `height`
// steps.
void expect_tree(const std::vector<TreePlace>& places, int height) {
  int roots = 0;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    for (int child : places[rank].children) EXPECT_EQ(places[child].parent, rank);
    if (places[rank].parent == kNobody) ++roots;
    int steps = 0;
    for (int at = rank; places[at].parent != kNobody && steps <= height; ++steps) {
      at = places[at].parent;
    }
    EXPECT_LE(steps, height) << "from rank " << rank << " of " << places.size();
  }
  EXPECT_EQ(roots, 1);
}

TEST(Tree, BinomialHasLogarithmicHeightAndTheWantedRoot) {
  for (int ranks = 1; ranks <= kManyRanks; ranks = ranks * 3 / 2 + 1) {
    const int root = ranks / 3;
    std::vector<TreePlace> places;
    for (int rank = 0; rank < ranks; ++rank) places.push_back(binomial_tree(ranks, root, rank));
    EXPECT_EQ(places[root].parent, kNobody);
    expect_tree(places, doubling_rounds(ranks));
  }
}

TEST(Tree, AlignedSubtreesCoverAllRanksOnceUnderAnyRoot) {
  for (int ranks = 1; ranks <= kManyRanks; ranks = ranks * 5 / 4 + 1) {
    for (int root : {0, ranks / 3, ranks - 1}) {
      int members = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const AlignedPlace place = aligned_tree(ranks, root, rank);
        EXPECT_EQ(place.parent == kNobody, rank == root);
        int below = 1;
        for (const Subtree& child : place.children) {
          const AlignedPlace its = aligned_tree(ranks, root, child.rank);
          EXPECT_EQ(its.parent, rank);
          EXPECT_EQ(its.own.first, child.first);
          EXPECT_EQ(its.own.count, child.count);
          below += child.count;
          ++members;
        }
        EXPECT_EQ(place.own.count, below);
      }
      EXPECT_EQ(members, ranks - 1);
      EXPECT_LE(aligned_load(ranks, root).height, static_cast<uint32_t>(doubling_rounds(ranks)));
    }
  }
}

TEST(Tree, ComplementaryTreesShareNoInnerRank) {
  for (int ranks = 1; ranks <= kManyRanks; ++ranks) {
    std::vector<TreePlace> trees[2];
    for (int rank = 0; rank < ranks; ++rank) {
      for (int which = 0; which < 2; ++which) {
        trees[which].push_back(complementary_tree(ranks, which, rank));
      }
      EXPECT_TRUE(trees[0].back().children.empty() || trees[1].back().children.empty());
      EXPECT_LE(trees[0].back().children.size() + trees[1].back().children.size(), 2u);
    }
    for (const auto& tree : trees) expect_tree(tree, doubling_rounds(ranks));
  }
}

// Every offset but 0 leaves exactly once, and nothing arrives where it has left already.
void expect_hops(const std::vector<Hop>& hops, int ranks) {
  EXPECT_EQ(static_cast<int>(hops.size()), doubling_rounds(ranks));
  std::set<int> gone;
  for (const Hop& hop : hops) {
    for (int i = 0; i < hop.count; ++i) {
      const int leaves = hop.distance + hop.offset(i);
      EXPECT_LT(leaves, ranks);
      EXPECT_TRUE(gone.insert(leaves).second) << leaves << " of " << ranks;
    }
    for (int i = 0; i < hop.count; ++i) EXPECT_EQ(gone.count(hop.offset(i)), 0u);
  }
  EXPECT_EQ(static_cast<int>(gone.size()), ranks - 1);
}

TEST(Hops, MoveAllButOneBlockInTheFewestRounds) {
  for (int ranks = 1; ranks <= kManyRanks; ++ranks) {
    for (HopsOf hops_of : {circulant_hops, bruck_hops, pat_hops}) {
      expect_hops(hops_of(ranks), ranks);
    }
  }
}

TEST(Halving, EveryHandoverIsExpectedAndEveryShareEndsWithItsOwner) {
  for (int ranks = 1; ranks <= 130; ++ranks) {
    std::vector<std::set<int>> held(static_cast<size_t>(ranks));
    for (auto& shares : held) {
      for (int share = 0; share < ranks; ++share) shares.insert(share);
    }
    HalvingLoad load;
    std::vector<uint64_t> received(static_cast<size_t>(ranks), 0);
    for (int round = 0; round < doubling_rounds(ranks); ++round) {
      int sends = 0, receives = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const HalvingRound part = halving_round(ranks, round, rank);
        for (const Handover& sent : part.sends) {
          const Handover expected = halving_round(ranks, round, sent.peer).receive;
          EXPECT_EQ(expected.peer, rank);
          EXPECT_EQ(expected.shares, sent.shares);
          for (int share : sent.shares) EXPECT_EQ(held[rank].erase(share), 1u);
          ++sends;
        }
        if (part.receive.peer >= 0) ++receives;
        received[rank] += part.receive.shares.size();
      }
      EXPECT_EQ(sends, receives);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(held[rank], std::set<int>{rank});
      load.received = std::max(load.received, received[rank]);
    }
    EXPECT_EQ(halving_load(ranks).received, load.received);
    EXPECT_LT(load.received, 2u * static_cast<unsigned>(ranks));
  }
}

TEST(Doubling, EveryTargetExpectsItsSource) {
  for (int ranks = 1; ranks <= kManyRanks; ranks = ranks * 5 / 4 + 1) {
    for (int round = 0; round < doubling_rounds(ranks); ++round) {
      std::vector<int> told(static_cast<size_t>(ranks), kNobody);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int target : doubling(ranks, round, rank).targets) {
          EXPECT_EQ(told[target], kNobody) << "told twice";
          told[target] = rank;
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(told[rank], doubling(ranks, round, rank).source);
      }
    }
  }
}

TEST(Ring, LanesWalkOppositeWaysThroughPartsThatNoOtherLaneHas) {
  const Ring forwards{.ranks = 5, .lane = 0, .lanes = 2};
  const Ring backwards{.ranks = 5, .lane = 1, .lanes = 2};
  EXPECT_EQ(forwards.at(4, 1), 0);
  EXPECT_EQ(backwards.at(0, 1), 4);
  EXPECT_EQ(backwards.at(backwards.at(3, 4), -4), 3);
  std::set<uint32_t> parts;
  for (const Ring& ring : {forwards, backwards}) {
    for (schedule::Block block : ring.parts_from(2, schedule::Space::kInput)) {
      EXPECT_TRUE(parts.insert(block.index()).second);
    }
  }
  EXPECT_EQ(parts.size(), 10u);
}

}  // namespace
}  // namespace tutti::algorithms::patterns
