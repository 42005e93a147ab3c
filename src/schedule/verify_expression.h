// The value of an atom: an expression over the ranks' contributions, and the atom of their inputs
// that it is about.
//
// Expressions are hash-consed, so equal ones have equal numbers; nothing is ever decided by a hash
// alone. A node is a pair (its operands in rising order: the operation commutes) or a list of
// three or more that is folded from the left and rounded once.
//
// An expression in which every rank occurs exactly once has less than 2*ranks nodes and meets none
// of them twice. So whether it is complete is a short walk over any expression, however large.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::schedule::verifier {

using ExpressionId = uint32_t;  // 0: nothing was ever written; 1 + rank: that rank's contribution

struct AtomValue {
  ExpressionId expression = 0;
  uint32_t atom = 0;  // of the input
  bool operator==(const AtomValue&) const = default;
};

class Expressions {
 public:
  explicit Expressions(int ranks);

  static ExpressionId leaf(int rank) { return static_cast<ExpressionId>(rank) + 1; }
  bool is_leaf(ExpressionId id) const { return id <= ranks_; }

  ExpressionId fold(Fold fold, std::span<const ExpressionId> operands) {
    return operands.size() == 1 ? operands[0] : combine(fold, operands);
  }

  /// Every rank's contribution, each exactly once.
  bool complete(ExpressionId id);
  /// The balanced binary tree over the ranks below it, as far as it goes.
  bool canonical(ExpressionId id) const { return nodes_[id].end != 0; }

  /// "rank 0 + rank 2 + 2 times rank 3", for messages.
  std::string describe(ExpressionId id) const;

  /// Memory is bounded: beyond it fold() returns wrong numbers and this is true.
  bool exhausted() const { return exhausted_; }

 private:
  struct Node {
    uint32_t operands = 0;  // offset
    uint32_t count = 0;
    uint32_t begin = 0;  // canonical: the ranks [begin, end) below; else end is 0
    uint32_t end = 0;
  };

  std::span<const ExpressionId> operands_of(ExpressionId id) const {
    return {pool_.data() + nodes_[id].operands, nodes_[id].count};
  }
  ExpressionId combine(Fold fold, std::span<const ExpressionId> operands);
  ExpressionId pair(ExpressionId a, ExpressionId b);
  ExpressionId tree(std::span<const ExpressionId> operands);
  ExpressionId intern(std::span<const ExpressionId> operands);
  void set_canonical(Node& node, std::span<const ExpressionId> operands) const;
  void grow();

  uint32_t ranks_;
  std::vector<Node> nodes_;
  std::vector<ExpressionId> pool_;
  std::vector<ExpressionId> table_;  // open addressing; 0 is empty
  std::vector<ExpressionId> scratch_;
  std::vector<uint32_t> visited_;  // complete(): per node
  uint32_t visit_ = 0;
  bool exhausted_ = false;
};

}  // namespace tutti::schedule::verifier
