// Sequence-parallel groups of different sizes in one step, and which sequences go to which (FlexSP,
// arXiv:2412.01523).
//
// Exact: the cost function of the authors' code, the buckets by dynamic programming, and the search
// for few sequences. Ours: instead of their integer program, every way to cut the ranks into powers
// of two is tried with sequences placed greedily, longest first; where there are few sequences,
// exhaustively.
//
// Units:   tokens; milliseconds as double, as the costs are fitted; bandwidths in GB/s, which the
//          authors' code divides MiB by.
// Errors:  throws kInvalidInput for tables that cannot be right, kInfeasible where a sequence fits
//          into no group.
// Threads: pure functions, equal on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/mesh.h"

namespace tutti::runtime {

struct FitCost {
  double square = 0;    // ms for a token pair
  double linear = 0;    // ms for a token
  double constant = 0;  // ms for a group that works
  int64_t layers = 0;
  int64_t hidden = 0;
  std::vector<double> bandwidth;  // of groups of 2, 4, 8 ... ranks
  int64_t tokens_per_rank = 0;    // that fit into memory; INT64_MAX: no limit

  /// One sequence's part of the time of a group of `degree` ranks.
  TUTTI_RUNTIME_API double sequence_ms(int64_t length, int degree) const;
};

struct SequenceGroup {
  RankSet ranks;               // aligned to its size
  std::vector<int> sequences;  // their numbers, ascending
  double ms = 0;
};
struct GroupPlan {
  std::vector<SequenceGroup> groups;  // cover all ranks; groups may be idle
  double ms = 0;                      // of the slowest
};
/// `ranks` is a power of two, at most 64.
TUTTI_RUNTIME_API GroupPlan group_choice(std::span<const int64_t> lengths, int ranks,
                                         const FitCost& cost);

struct BatchPlan {
  std::vector<GroupPlan> micro_batches;  // with the sequences' numbers in the batch
  double ms = 0;                         // of all of them, one after the other
};
/// Cuts a batch into the fewest micro-batches, at least `least`, that all fit: the sequences sorted
/// by length, cut where the largest number of tokens is least.
TUTTI_RUNTIME_API BatchPlan split_batch(std::span<const int64_t> lengths, int ranks,
                                        const FitCost& cost, int least = 1);

struct LengthBuckets {
  std::vector<int64_t> bounds;  // the longest of each bucket, ascending
  int64_t error = 0;            // sum of bound - length
};
/// The cut of the sorted lengths into at most so many buckets with the least error.
TUTTI_RUNTIME_API LengthBuckets bucket_lengths(std::span<const int64_t> lengths, int buckets);

}  // namespace tutti::runtime
