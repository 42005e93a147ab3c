// A sharding says which rank holds which elements: one type for every way to spread a flat
// sequence.
//
// A sharding lists intervals of a global index space, each with the rank that holds it. A rank's
// local buffer is its intervals one behind the other, in the order of the list. Even cuts, ragged
// cuts, zigzag and striped context parallelism, token routing, replication and a single root are
// all values of this type, so that one function (reshard.h) moves between any two.
//
// Units:   elements; what an element is, and its bytes, is the caller's affair.
// Errors:  constructors throw Error and say which number to change; validate() does so for lists
//          that a caller made.
// Threads: values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

struct Shard {
  int rank = 0;
  int64_t begin = 0;  // global
  int64_t length = 0;
  bool operator==(const Shard&) const = default;
};

struct TUTTI_RUNTIME_API Sharding {
  int ranks = 0;
  int64_t size = 0;
  int64_t block = 1;  // no cut falls inside a block: cuts are multiples, or a sequence's own end
  int copies = 1;     // each element is held by so many ranks
  std::vector<Shard> shards;

  /// The number of elements that one rank holds.
  int64_t local_size(int rank) const;
  /// Where each shard begins in its rank's local buffer.
  std::vector<int64_t> local_offsets() const;
  bool operator==(const Sharding&) const = default;
};

/// Throws Error unless exactly `copies` ranks hold each element, and none of them twice.
TUTTI_RUNTIME_API void validate(const Sharding& sharding);

/// Equal contiguous shares; `size` must be a multiple of `ranks`.
TUTTI_RUNTIME_API Sharding even(int64_t size, int ranks);
/// Contiguous shares in proportion to units, cut only at multiples of `block` (RaggedShard of
/// veScale-FSDP): units 0 hold nothing.
TUTTI_RUNTIME_API Sharding ragged(int64_t size, std::span<const int64_t> units, int64_t block);
/// The same within each of `parts` equal parts: rank u * parts + p holds share u of part p. So a
/// tensor lies that is cut evenly on its first dimension (Shard(0) of tensor parallelism), and each
/// part by units over the other axis of the mesh, whose ranks are `parts` apart (DTensor's strided
/// Shard(0)). Blocks do not cross parts.
TUTTI_RUNTIME_API Sharding ragged_in_parts(int64_t size, int parts, std::span<const int64_t> units,
                                           int64_t block);
/// Sequences one behind the other, each cut into blocks of which the last may be short; owner[i]
/// holds the i-th block of all.
TUTTI_RUNTIME_API Sharding blocks(std::span<const int64_t> lengths, int64_t block,
                                  std::span<const int> owner, int ranks);
/// Chunk i and chunk 2*ranks-1-i go to rank i: equal causal work for all (head and tail).
TUTTI_RUNTIME_API Sharding zigzag(int64_t size, int ranks);
/// Stripe b goes to rank b mod ranks.
TUTTI_RUNTIME_API Sharding striped(int64_t size, int ranks, int64_t stripe);
/// Blocks of unequal work: the heaviest go to the ranks in turn, there and back (0 1 2 2 1 0 0 1
/// ...). weights has one entry a block; the last block may be short.
TUTTI_RUNTIME_API Sharding zigzag_by_weight(int64_t size, int64_t block,
                                            std::span<const int64_t> weights, int ranks);
/// Shares of these sizes, one behind the other.
TUTTI_RUNTIME_API Sharding contiguous(std::span<const int64_t> counts);
TUTTI_RUNTIME_API Sharding replicated(int64_t size, int ranks);
TUTTI_RUNTIME_API Sharding single_root(int64_t size, int ranks, int root);

/// Routed tokens: counts[s * ranks + t] go from rank s to rank t. The index space is ordered by
/// source, then target.
enum class RoutedSide { kSource, kTarget };
TUTTI_RUNTIME_API Sharding from_counts(std::span<const int64_t> counts, int ranks, RoutedSide side);

}  // namespace tutti::runtime
