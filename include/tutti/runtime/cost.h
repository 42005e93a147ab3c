// Costs of work and of transfers, as planners and simulations expect them.
//
// Units:   nanoseconds, bytes; work of attention in query-key pairs.
// Errors:  throws Error for negative or not finite numbers, and for levels that do not fit the
//          ranks.
// Threads: values and pure functions; predicted() is a call on its communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct LinkClass {
  Nanoseconds latency{0};   // of a message
  double bytes_per_ns = 1;  // GB/s
};

/// One level of a nested machine, of which a Machine lists the innermost first: for example two
/// dies in a package, four packages in a node, and nodes in a network. Ranks that differ in their
/// place on this level and agree on all outer ones talk over this level's links.
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
  void check_group(const RankSet& group) const;

  std::vector<MachineLevel> levels_;
  int ranks_;
};

TUTTI_RUNTIME_API Nanoseconds message_time(const LinkClass& link, Bytes bytes);
/// Rings: an all_gather, reduce_scatter or all_to_all moves bytes * (p - 1) / p of the whole buffer
/// past each rank, an all_reduce twice that. Sends and receives take `bytes` as the message.
TUTTI_RUNTIME_API Nanoseconds collective_time(const Machine& machine, const RankSet& group,
                                              TaskKind kind, Bytes bytes);
/// The time that the library predicts for the algorithm that it would choose on this communicator.
/// Collective.
TUTTI_RUNTIME_API Nanoseconds predicted(tuttiComm_t comm, TaskKind kind, Bytes bytes);

/// The number of query-key pairs under a causal mask, for `queries` rows of which the last one
/// attends to all `keys`.
TUTTI_RUNTIME_API int64_t causal_work(int64_t queries, int64_t keys);

/// The heads of attention in one layer, or in a rank's part of it.
struct AttentionShape {
  int64_t q_heads = 1;  // a multiple of kv_heads, which they share
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
};

/// Measured times of attention over a grid of two sizes. Times between its points are interpolated
/// bilinearly; beyond the last points they are in proportion to the product of the sizes, which
/// assumes the peak rate.
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
