// The part of the data that each rank holds where ranks live on a tree of nodes, and whom it
// exchanges it with.
//
// The data is a line. Every rank owns an interval of it, a node owns those of the ranks below it.
// When the ranks of a node have reduced among themselves, every position of the line is held by one
// of them: what the node owns by its owner; the rest, which is to leave the node, is dealt out
// evenly among the children, theirs among their children, and so on. So when the children of a node
// exchange with each other, child k ends up with *block k*: what it owns, and its part of what is
// to leave the node above it.
//
// Positions in which each child has one certain holder make up a team of one rank for each child. A
// team does what a schedule without levels does among as many ranks; all teams together do it for
// the children. Where siblings are alike, a team has the ranks of equal place (a "rail"); where
// they differ, a rank is in several.
//
// Equal shares: a node's children own equal parts of what the node owns, whatever their size, which
// makes the largest load of siblings with equal links the least. Where the line would have to be
// cut into very many blocks for that, parts are rounded to units of a coarser line. Parts of ranks:
// every rank owns one, and a part is not cut. Units that do not go round are dealt in turn, so no
// rank holds more of what leaves a node than its share rounded up to a unit.
//
// Threads: values. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "src/schedule/layout.h"
#include "src/schedule/node_tree.h"

namespace tutti::algorithms::patterns {

struct Stretch {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t width() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

/// One rank for each child of a node, and what they hold together: by child, the blocks of the
/// buffer that are to be held by it.
struct Team {
  std::vector<int> members;
  std::vector<std::vector<uint32_t>> blocks;
};

/// The part of a rank in the exchange among the children of a node.
struct Teams {
  size_t level = 0;
  int children = 1;
  int child = 0;            // the one that holds the rank
  std::vector<Team> teams;  // in the same order on all their members
};

/// So much of a block is held by a rank when the children of its node of `level` exchange.
struct Holding {
  size_t level = 0;
  int rank = 0;
  uint32_t child = 0;  // that holds the rank
  uint32_t block = 0;
  uint64_t width = 0;
};

class Shares {
 public:
  /// Of a buffer of `count` elements.
  static Shares equal(schedule::NodeTreePointer tree);
  /// Of a buffer with a part of `count` elements for every rank; blocks are those parts.
  static Shares parts(schedule::NodeTreePointer tree);

  /// How the buffer is cut.
  schedule::Partition partition() const;
  /// In one `count`; no block is cut finer.
  uint64_t units() const { return unit_; }
  /// Whether shares are as promised, or had to be rounded.
  bool exact() const { return exact_; }
  /// All subtrees of a level are alike, and so are all ranks.
  bool regular() const { return regular_; }
  const schedule::NodeTree& tree() const { return *tree_; }

  Stretch owned_by(int rank) const { return owned_[static_cast<size_t>(rank)]; }

  /// The teams of a rank at every level, from the innermost.
  std::vector<Teams> teams_of(int rank) const;
  /// All that ranks hold in the exchanges at all nodes. O(ranks * children * levels).
  using Visit = std::function<void(const Holding&)>;
  void visit_holdings(const Visit& visit) const;

 private:
  using Intervals = std::vector<Stretch>;
  struct Piece {
    Stretch at;
    int rank = 0;
  };
  using Pieces = std::vector<Piece>;
  // A part of block `child` in the exchange of a node's children.
  struct Cell {
    Stretch at;
    uint32_t child = 0;
    bool owned = false;  // by the child
  };

  explicit Shares(schedule::NodeTreePointer tree) : tree_(std::move(tree)) { classify(); }
  void classify();
  void lay_out(uint64_t units);
  void own(size_t level, uint32_t node, Stretch interval);
  Stretch owned_by(size_t level, uint32_t node) const;
  Stretch owned_by_child(size_t level, uint32_t child) const;
  bool cut();
  bool cut_foreign(size_t level, uint32_t node, std::vector<uint64_t>& bounds) const;
  bool cut_nested(size_t level, uint32_t node, const Intervals& cells,
                  std::vector<uint64_t>& bounds) const;

  std::vector<Cell> cells_of(size_t level, uint32_t node, const Intervals& leaving) const;
  static std::vector<size_t> leaving(const std::vector<Cell>& cells, uint32_t child);
  static Intervals intervals_of(const std::vector<Cell>& cells, const std::vector<size_t>& order);
  std::vector<Pieces> deal(size_t level, uint32_t node, const Intervals& cells,
                           const Intervals& wanted) const;
  Intervals held_by(size_t level, const Intervals& cells, int rank) const;
  Intervals held_in_exchange(size_t level, const std::vector<Cell>& cells, int rank) const;
  std::vector<Pieces> holders(size_t level, uint32_t node, uint32_t child,
                              const std::vector<Cell>& cells, const Intervals& wanted) const;
  /// Those of the interval, as they are numbered in the buffer.
  void append_blocks(Stretch interval, std::vector<uint32_t>& blocks) const;
  Team rail(size_t level, int rank, const std::vector<Cell>& cells, const Intervals& mine) const;
  Teams teams_at(size_t level, int rank, const std::vector<Cell>& cells) const;
  void hold(size_t level, uint32_t node, const Intervals& dealt, const Visit& visit) const;

  schedule::NodeTreePointer tree_;
  bool cuts_parts_ = true;
  bool exact_ = true;
  bool regular_ = true;
  uint64_t unit_ = 1;
  uint64_t length_ = 1;
  std::vector<Stretch> owned_;                  // by rank
  std::vector<uint64_t> bounds_;                // of blocks, where they are not the units
  std::vector<std::vector<uint32_t>> classes_;  // [level][node]: equal where subtrees are alike
};

}  // namespace tutti::algorithms::patterns
