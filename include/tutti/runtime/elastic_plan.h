// Plans of training whose ranks change: layers over stages, micro-batches over replicas, and shards
// of state over ranks, with as little moved as can be.
//
// Paper: ElasWave (arXiv:2510.00606), of which the abstract and a summary are public. Exact: the
// same batch over fewer ranks, layers in contiguous parts whose slowest is as fast as can be,
// shards of each layer over all ranks, so that a lost rank moves its own share and nothing else.
// Reconstructed: the searches, and ties. Clocks that are raised on slow stages are left out.
//
// Units:   costs are any integer measure; speeds are cost per time, any integer unit; elements.
// Errors:  throws Error: kInvalidInput for numbers that cannot be right, kInfeasible where no stage
//          has room.
// Threads: pure functions, equal on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/assign.h"
#include "tutti/runtime/sharding.h"

namespace tutti::runtime {

/// Consecutive layers (whole items, at most 4096) to consecutive stages (bins), at least one to
/// each, so that the largest cost / speed is least; of these the one that moves fewest bytes away
/// from homes. Keeps to `memory` and `capacity` of bins. Without speeds all stages are equal.
TUTTI_RUNTIME_API Assignment partition_layers(const WorkProblem& problem,
                                              std::span<const int64_t> speeds = {});

/// A layer that changes its stage. Where its state lies in shards over the ranks of a stage, each
/// rank sends its own shard to the rank of the same number.
struct LayerMove {
  int layer = 0;
  int from = 0;
  int to = 0;
  bool operator==(const LayerMove&) const = default;
};
TUTTI_RUNTIME_API std::vector<LayerMove> layer_moves(const Assignment& before,
                                                     const Assignment& after);

/// How many micro-batches each replica does, all together `micro_batches`, so that the largest
/// number / speed is least. A replica of speed 0 does none. Replica r does those behind the ones of
/// the replicas before it.
TUTTI_RUNTIME_API std::vector<int64_t> split_micro_batches(int64_t micro_batches,
                                                           std::span<const int64_t> speeds);

/// The same elements held by other ranks: those of rank r by heirs[r], of `ranks`. After an edit a
/// survivor inherits from itself, by its new number, and a rank that has a copy from one that died.
TUTTI_RUNTIME_API Sharding inherited(const Sharding& before, std::span<const int> heirs, int ranks);
/// As many elements on each rank as on any other, but for one block. Ranks keep what they have, as
/// far as that allows it: no such sharding moves fewer elements. `ranks` may be more than before:
/// new ranks hold nothing yet.
TUTTI_RUNTIME_API Sharding rebalanced(const Sharding& present, int ranks);

}  // namespace tutti::runtime
