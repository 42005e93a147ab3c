#include "algorithms/patterns/routes.h"

#include <algorithm>
#include <numeric>

namespace tutti::algorithms::patterns {

using schedule::NodeTree;

int receiver_of(const Siblings& sender, int child) {
  size_t outside = sender.place();  // the rank's number among those of the node outside the child
  for (int other = 0; other < sender.own(); ++other) {
    if (other != child) outside += sender.ranks_of(other).size();
  }
  const auto ranks = sender.ranks_of(child);
  return ranks[outside % ranks.size()];
}

std::vector<std::vector<int>> carriers_of(const NodeTree& tree, int rank) {
  std::vector<std::vector<int>> all(tree.levels());
  std::vector<int>& outermost = all.back();
  outermost.resize(static_cast<size_t>(tree.ranks()));
  std::iota(outermost.begin(), outermost.end(), 0);
  for (size_t level = tree.levels() - 1; level > 0; --level) {
    const uint32_t node = tree.node_of(level - 1, rank);
    const int child = static_cast<int>(tree.child_of(level, rank));
    for (const int carrier : all[level]) {
      const bool is_there = tree.node_of(level - 1, carrier) == node;
      all[level - 1].push_back(is_there ? carrier
                                        : receiver_of(Siblings(tree, level, carrier), child));
    }
  }
  return all;
}

std::vector<std::vector<Passage>> passages_of(const NodeTree& tree) {
  const auto ranks = static_cast<size_t>(tree.ranks());
  std::vector<std::vector<Passage>> all(tree.levels(), std::vector<Passage>(ranks));
  std::vector<uint64_t> origins(ranks, 1);  // of what a rank holds
  std::vector<uint32_t> depths(ranks, 0);
  for (size_t level = tree.levels(); level-- > 0;) {
    std::vector<Passage>& passages = all[level];
    std::vector<uint64_t> arrived(ranks, 0);
    for (size_t rank = 0; rank < ranks; ++rank) passages[rank].depth = depths[rank];
    for (size_t rank = 0; rank < ranks; ++rank) {
      const Siblings siblings(tree, level, static_cast<int>(rank));
      for (int child = 0; child < siblings.count(); ++child) {
        if (child == siblings.own()) continue;
        const auto target = static_cast<size_t>(receiver_of(siblings, child));
        const uint64_t below = siblings.ranks_of(child).size();
        passages[rank].sent += origins[rank] * below;
        ++passages[rank].messages_sent;
        passages[target].received += origins[rank] * below;
        passages[target].kept += origins[rank] * (below - 1);
        ++passages[target].messages_received;
        passages[target].depth = std::max(passages[target].depth, depths[rank] + 1);
        arrived[target] += origins[rank];
      }
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      origins[rank] += arrived[rank];
      depths[rank] = passages[rank].depth;
    }
  }
  return all;
}

}  // namespace tutti::algorithms::patterns
