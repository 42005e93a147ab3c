// Context parallelism by blocks (FCP): sequences are cut into blocks, which any rank may hold and
// which are placed by their work. A rank pulls the keys and values that it lacks in congestion-free
// rounds while it computes attention on those that it has.
//
// Exact: work of causal blocks, placement by lpt, rounds as many as the largest degree, merging in
// block order, so that the bits do not depend on the placement; pairs of head and tail blocks, and
// kernels' efficiency by block length, where they are asked for.
//
// Units:   tokens, query-key pairs; nanoseconds in the timeline. One causal mask a sequence.
// Errors:  throws Error: blocks that kernels cannot take, sequences that do not fit into memory.
// Threads: values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/assign.h"
#include "tutti/runtime/cost.h"
#include "tutti/runtime/reshard.h"
#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

/// The rate of kernels on blocks of this length, of their best: above 0, at most 1.
struct KernelRate {
  int64_t length = 0;
  double rate = 1;
};

struct ContextSpec {
  int64_t block = 4096;
  int64_t grain = 128;                 // blocks are multiples of it, for the kernels
  int64_t tokens_per_rank = kNoLimit;  // that fit into memory
  bool pairs = false;  // the first block of a sequence goes where its last one does, and so on
                       // inwards: equal work for all pairs
  std::vector<KernelRate> rates = {};  // by rising length, a straight line between two; empty: 1.
                                       // Work is divided by it
};

struct TUTTI_RUNTIME_API ContextBlock {
  int sequence = 0;
  int64_t begin = 0;  // in all sequences, one behind the other
  int64_t length = 0;
  int64_t before = 0;  // tokens of the sequence before it
  int owner = 0;
  int64_t work() const;  // pairs
};

/// One pair of a query block and a key block, by their places in ContextPlan::blocks. The rank
/// holds the keys and values, or has pulled them.
struct ContextNeed {
  int query = 0;
  int key = 0;
};

struct TUTTI_RUNTIME_API ContextPlan {
  int ranks = 0;
  std::vector<ContextBlock> blocks;
  Sharding placement;  // of tokens; reshard() moves between it and the user's sharding
  Resharding pulls;    // of keys and values, from the placement to a buffer of pulled blocks
  std::vector<int> pulled_block;  // of each parcel of pulls: one parcel is one block
  Rounds rounds;
  Judgement balance;  // of work, in pairs at the kernels' best rate

  /// The pairs of blocks that a rank computes: its query blocks, each with every key block up to
  /// it, in block order.
  std::vector<ContextNeed> needs_of(int rank) const;
};
TUTTI_RUNTIME_API ContextPlan plan_context(std::span<const int64_t> lengths, int ranks,
                                           const ContextSpec& spec);
/// The same for a placement that is given, a rank for each block.
TUTTI_RUNTIME_API ContextPlan plan_context_at(std::span<const int64_t> lengths, int ranks,
                                              const ContextSpec& spec, std::span<const int> owners);

struct ContextTimes {
  double ns_per_pair = 1;
  Nanoseconds pull{0};  // of one block
  int coalesce = 1;     // rounds whose blocks are attended to together
};
/// A rank computes attention on its own keys first, and then, after every `coalesce` rounds, on the
/// keys that these brought.
TUTTI_RUNTIME_API Timeline context_timeline(const ContextPlan& plan, const ContextTimes& times);

/// The least bandwidth, in bytes per ns, at which pulling a block takes no longer than attention on
/// it. Keys and values of kv_heads have 2 bytes a number; each pair takes 4 floating point
/// operations for each head and dimension.
TUTTI_RUNTIME_API double hiding_bandwidth(int64_t block, const AttentionShape& shape,
                                          double flops_per_ns);

}  // namespace tutti::runtime
