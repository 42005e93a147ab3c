#include "algorithms/patterns/routes.h"

#include <algorithm>
#include <numeric>

namespace tutti::algorithms::patterns {

using schedule::NodeTree;

int receiver_of(const Siblings& siblings, Place sender, int child) {
  const auto ranks = siblings.ranks_of(child);
  return ranks[siblings.number_outside(sender, child) % ranks.size()];
}

std::vector<std::vector<int>> carriers_of(const NodeTree& tree, int rank) {
  std::vector<std::vector<int>> all(tree.levels());
  std::vector<int>& outermost = all.back();
  outermost.resize(static_cast<size_t>(tree.ranks()));
  std::iota(outermost.begin(), outermost.end(), 0);
  std::vector<int> next(outermost.size());  // carrier further in, by the carrier of a level
  for (size_t level = tree.levels() - 1; level > 0; --level) {
    const Siblings siblings(tree, level, tree.node_of(level, rank));
    const int own = siblings.place_of(rank).child;
    siblings.for_each([&](Place at) {
      const int carrier = siblings.rank_at(at);
      const bool is_there = at.child == own;
      next[static_cast<size_t>(carrier)] = is_there ? carrier : receiver_of(siblings, at, own);
    });
    for (const int carrier : all[level]) {
      all[level - 1].push_back(next[static_cast<size_t>(carrier)]);
    }
  }
  return all;
}

namespace {

// A rank at the beginning of an exchange: how many origins it holds blocks of, and the longest
// chain of messages that ends there.
struct State {
  uint64_t origins = 1;
  uint32_t depth = 0;
};

void pass(const Siblings& siblings, Place at, std::vector<Passage>& passages,
          const std::vector<State>& before, std::vector<State>& after) {
  const auto rank = static_cast<size_t>(siblings.rank_at(at));
  const uint64_t origins = before[rank].origins;
  for (int child = 0; child < siblings.count(); ++child) {
    if (child == at.child) continue;
    const auto target = static_cast<size_t>(receiver_of(siblings, at, child));
    const uint64_t below = siblings.ranks_of(child).size();
    passages[rank].sent += origins * below;
    ++passages[rank].messages_sent;
    passages[target].received += origins * below;
    passages[target].kept += origins * (below - 1);
    ++passages[target].messages_received;
    after[target].origins += origins;
    after[target].depth = std::max(after[target].depth, before[rank].depth + 1);
  }
}

}  // namespace

std::vector<std::vector<Passage>> passages_of(const NodeTree& tree) {
  const auto ranks = static_cast<size_t>(tree.ranks());
  std::vector<std::vector<Passage>> all(tree.levels(), std::vector<Passage>(ranks));
  std::vector<State> states(ranks);
  for (size_t level = tree.levels(); level-- > 0;) {
    const std::vector<State> before = states;
    for (uint32_t node = 0; node < tree.nodes(level); ++node) {
      const Siblings siblings(tree, level, node);
      siblings.for_each([&](Place at) { pass(siblings, at, all[level], before, states); });
    }
    for (size_t rank = 0; rank < ranks; ++rank) all[level][rank].depth = states[rank].depth;
  }
  return all;
}

}  // namespace tutti::algorithms::patterns
