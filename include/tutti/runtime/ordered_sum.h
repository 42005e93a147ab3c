// A sum over micro-batches whose bits do not depend on which rank did which of them.
//
// Each micro-batch has a number. The numbers 0 .. n - 1 are the leaves of one balanced binary tree,
// and every addition is one of its inner nodes. A rank adds what it has of the tree while it
// computes: a run of numbers becomes at most 2 log2(n) nodes. finish() sends each node's elements
// to the ranks that own them, which do the rest of the tree, and gathers the results.
//
//   rank 0 has 0..2, rank 1 has 3..7       0 1 | 2 | 3 | 4 5 6 7        nodes that are sent: 4
//
// Where every rank has an aligned power of two of them, it sends one node: as much as a
// reduce_scatter. With any other split it is at most as many times that as it has nodes.
//
// Types:    float and double; bfloat16 and float16, which are added in float and rounded once.
// Memory:   of the host. A rank keeps its nodes, each as long as the gradient in accumulators (4
//           bytes an element, of doubles 8), and for finish() twice as much.
// Ordering: finish() is collective. A rank adds its micro-batches in ascending order.
// Threads:  one at a time.
// Errors:   throws Error: kInvalidInput for numbers that do not ascend; kRanksDiffer where a number
//           is missing or was added twice, naming it. After kCommunication the object can be used
//           for the next sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tutti/runtime/exchange.h"

namespace tutti::runtime {

struct OrderedSumCounters {
  int64_t nodes = 0;  // that this rank sent, of all sums
  Bytes sent{0};      // to other ranks
};

class TUTTI_RUNTIME_API OrderedSum {
 public:
  OrderedSum(int64_t elements, int64_t micro_batches, tuttiDataType_t type);
  ~OrderedSum();

  /// Adds the gradient of one micro-batch, whose memory may then be used again.
  void add(int64_t number, const void* gradient);
  /// Sets `sum` to the sum of all micro-batches, on every rank, and begins the next one.
  void finish(tuttiComm_t comm, void* sum);
  /// Forgets what was added, for a step that begins anew.
  void clear();

  const OrderedSumCounters& counters() const { return counters_; }

 private:
  struct TreeNode;

  void join_siblings();
  std::vector<int64_t> share_places(tuttiComm_t comm, int ranks, std::vector<int64_t>& counts);
  void send_pieces(tuttiComm_t comm, int rank, int ranks, std::span<const int64_t> counts,
                   std::vector<std::byte>& arrived);
  size_t fold(std::span<const int64_t> places, std::byte* pieces, size_t bytes);
  int64_t boundary(int64_t rank, int64_t ranks) const { return elements_ * rank / ranks; }
  size_t wide(int64_t elements) const;

  int64_t elements_;
  int64_t micro_batches_;
  tuttiDataType_t type_;
  std::unique_ptr<Reduction> leaves_;             // from the type to accumulators
  std::unique_ptr<Reduction> inner_;              // accumulators
  std::vector<std::unique_ptr<TreeNode>> nodes_;  // of this rank, ascending
  OrderedSumCounters counters_;
};

}  // namespace tutti::runtime
