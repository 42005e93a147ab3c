#include "algorithms/patterns/tree.h"

#include <algorithm>
#include <bit>

#include "algorithms/patterns/exchange.h"

namespace tutti::algorithms::patterns {
namespace {

int lowest_bit(int x) { return x & -x; }

// The in-order binary tree over positions 1..size: the height of a position is its number of
// trailing zeros, so odd positions are leaves. Where a position beyond `size` is missing, its left
// child moves up.
int in_order_parent(int size, int position) {
  if (position == static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))) return kNobody;
  do {
    const int low = lowest_bit(position);
    position = (position ^ low) | (low * 2);
  } while (position > size);
  return position;
}

std::vector<int> in_order_children(int size, int position) {
  std::vector<int> children;
  int step = lowest_bit(position) / 2;
  if (step == 0) return children;
  children.push_back(position - step);
  while (step > 0 && position + step > size) step /= 2;
  if (step > 0) children.push_back(position + step);
  return children;
}

// Tree 1 is tree 0 with odd and even positions swapped: mirrored if `ranks` is even, else shifted.
int position_of(int ranks, int which, int rank) {
  if (which == 0) return rank + 1;
  return ranks % 2 == 0 ? ranks - rank : (rank + 1) % ranks + 1;
}

int rank_at(int ranks, int which, int position) {
  if (position == kNobody) return kNobody;
  if (which == 0) return position - 1;
  return ranks % 2 == 0 ? ranks - position : (position + ranks - 2) % ranks;
}

}  // namespace

TreePlace binomial_tree(int ranks, int root, int rank) {
  const int self = (rank - root + ranks) % ranks;
  const auto whole = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  const int subtree = self == 0 ? whole : lowest_bit(self);
  TreePlace place;
  if (self != 0) place.parent = (self - subtree + root) % ranks;
  for (int distance = subtree / 2; distance > 0; distance /= 2) {
    if (self + distance < ranks) place.children.push_back((rank + distance) % ranks);
  }
  return place;
}

AlignedPlace aligned_tree(int ranks, int root, int rank) {
  const auto group_at = [&](int level, int member) {
    const int first = member >> level << level;
    const bool has_root = root >> level == member >> level;
    return Subtree{has_root ? root : first, first, std::min(1 << level, ranks - first)};
  };
  AlignedPlace place;
  for (int level = 0;; ++level) {
    place.own = group_at(level, rank);
    if (place.own.count == ranks) return place;
    const int sibling = place.own.first ^ 1 << level;
    if (sibling >= ranks) continue;
    const Subtree joined = group_at(level + 1, rank);
    if (joined.rank != rank) {
      place.parent = joined.rank;
      return place;
    }
    place.children.push_back(group_at(level, sibling));
  }
}

// Where two groups join, the one that the root is not in sends all it has; else the upper one.
uint64_t handed_over(int ranks, int root) {
  uint64_t all = 0;
  for (int size = 1; size < ranks; size *= 2) {
    for (int upper = size; upper < ranks; upper += 2 * size) {
      const int members = std::min(size, ranks - upper);
      const bool has_root = upper <= root && root < upper + members;
      all += static_cast<uint64_t>(has_root ? size : members);
    }
  }
  return all;
}

// Every group without the root is spoken for by its lowest rank, so its size tells the rest.
AlignedLoad aligned_load(int ranks, int root) {
  const std::vector<Subtree> children = aligned_tree(ranks, root, root).children;
  const auto edges = static_cast<uint32_t>(children.size());
  AlignedLoad load{.most_children = edges, .most_edges = edges};
  for (const Subtree& child : children) {
    const auto count = static_cast<unsigned>(child.count);
    const auto below = static_cast<uint32_t>(std::max(1, doubling_rounds(child.count)));
    load.height = std::max(load.height, static_cast<uint32_t>(std::bit_width(count)));
    load.most_children = std::max(load.most_children, below);
    load.most_edges =
        std::max(load.most_edges, 1 + static_cast<uint32_t>(doubling_rounds(child.count)));
    load.largest = std::max(load.largest, uint64_t{count});
  }
  const auto others = static_cast<uint64_t>(ranks - 1);
  load.most_moved = load.largest > 0 ? std::max(others, 2 * load.largest - 1) : 0;
  load.handed_over = handed_over(ranks, root);
  return load;
}

TreePlace complementary_tree(int ranks, int which, int rank) {
  const int position = position_of(ranks, which, rank);
  TreePlace place;
  place.parent = rank_at(ranks, which, in_order_parent(ranks, position));
  for (int child : in_order_children(ranks, position)) {
    place.children.push_back(rank_at(ranks, which, child));
  }
  return place;
}

}  // namespace tutti::algorithms::patterns
