// What work and transfers should take: shared by planners and simulations.
//
// Units:   nanoseconds, bytes; work of attention in query-key pairs.
// Errors:  throws Error for negative or not finite numbers, and for levels that do not fit the
// ranks. Threads: values and pure functions; predicted() is a call on its communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct LinkClass {
  Nanoseconds latency{0};   // of a message
  double bytes_per_ns = 1;  // GB/s
};

/// Nested places, the innermost first: two dies a package, four packages a node, nodes in a
/// network. Ranks that agree on all places outside of a level talk over that level's links.
struct MachineLevel {
  int size = 1;  // places of the level below in one of this level
  LinkClass link;
};

class TUTTI_RUNTIME_API Machine {
 public:
  /// The sizes multiply to `ranks`.
  Machine(std::vector<MachineLevel> levels, int ranks);
  int ranks() const { return ranks_; }
  /// The lowest level that holds all of the group: its links are the slowest that it needs.
  int span_of(const RankSet& group) const;
  const LinkClass& link_of(const RankSet& group) const;
  /// How many places of a level the group touches.
  int places_touched(const RankSet& group, int level) const;

 private:
  std::vector<MachineLevel> levels_;
  int ranks_;
};

TUTTI_RUNTIME_API Nanoseconds message_time(const LinkClass& link, Bytes bytes);
/// Rings: an all_gather, reduce_scatter or all_to_all moves bytes * (p - 1) / p of the whole buffer
/// past each rank, an all_reduce twice that. Sends and receives take `bytes` as the message.
TUTTI_RUNTIME_API Nanoseconds collective_time(const Machine& machine, const RankSet& group,
                                              TaskKind kind, Bytes bytes);
/// What the library says that its own choice takes on this communicator. Collective.
TUTTI_RUNTIME_API Nanoseconds predicted(tuttiComm_t comm, TaskKind kind, Bytes bytes);

/// Pairs of a causal mask: `queries` rows that end with the last of `keys`.
TUTTI_RUNTIME_API int64_t causal_work(int64_t queries, int64_t keys);

/// Of one layer, or of a rank's part of it.
struct AttentionShape {
  int64_t q_heads = 1;  // a multiple of kv_heads, which they share
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
};

/// Measured times over a grid of two sizes; between its points bilinear, beyond the last ones in
/// proportion to the product of the sizes (the peak rate).
class TUTTI_RUNTIME_API WorkGrid {
 public:
  /// times[i * keys.size() + j] belongs to queries[i] and keys[j]; both ascending and positive.
  WorkGrid(std::vector<int64_t> queries, std::vector<int64_t> keys, std::vector<Nanoseconds> times);
  Nanoseconds time(int64_t queries, int64_t keys) const;

 private:
  std::vector<int64_t> queries_, keys_;
  std::vector<Nanoseconds> times_;
};

}  // namespace tutti::runtime
