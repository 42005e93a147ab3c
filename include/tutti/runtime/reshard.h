// A resharding says which elements move when a sequence changes its sharding; rounds say in which
// order they can move without congestion.
//
// A resharding is the intersection of two shardings: a list of parcels. The same list says how FSDP
// redistributes, how a matrix comes to one root, how routed tokens and attention blocks travel, and
// how a checkpoint of m ranks is read by n. In reverse it moves gradients.
//
// Units:   elements. Offsets lie in the local buffers of the two shardings.
// Errors:  throws Error where sizes or numbers of ranks differ, or a sharding is not valid.
// Threads: values; pure functions, equal on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/sharding.h"

namespace tutti::runtime {

/// One run of elements that lies in one piece on both sides.
struct Parcel {
  int source = 0;
  int target = 0;
  int64_t source_offset = 0;
  int64_t target_offset = 0;
  int64_t length = 0;
  bool operator==(const Parcel&) const = default;
};

struct Resharding {
  int ranks = 0;
  std::vector<int64_t> source_sizes;  // of the local buffers, one a rank
  std::vector<int64_t> target_sizes;
  std::vector<Parcel> parcels;  // by target, then target offset; those that stay included
  bool operator==(const Resharding&) const = default;
};

/// Throws Error where a parcel is empty or leaves the ranks or their buffers, or sizes lack.
TUTTI_RUNTIME_API void validate(const Resharding& resharding);

/// A rank that holds an element in both shardings keeps it. If several ranks hold it in `from`,
/// they take turns as sources, by target. Between shardings of different numbers of ranks
/// (checkpoints) the result has the larger number.
TUTTI_RUNTIME_API Resharding reshard(const Sharding& from, const Sharding& to);
/// The same parcels in the other direction. Elements that replication handed out then arrive from
/// several ranks and need a reduction.
TUTTI_RUNTIME_API Resharding reverse(const Resharding& resharding);
/// The number of elements that leave their rank.
TUTTI_RUNTIME_API int64_t moved(const Resharding& resharding);

/// Indices of parcels, round by round; parcels that stay on their rank are in none.
using Rounds = std::vector<std::vector<int>>;

/// The most parcels that one rank sends, or receives: no order needs fewer rounds.
TUTTI_RUNTIME_API int max_degree(std::span<const Parcel> parcels, int ranks);
/// In a round each rank sends at most one parcel and receives at most one. Koenig's edge colouring
/// by alternating paths: exactly max_degree() rounds.
TUTTI_RUNTIME_API Rounds congestion_free(std::span<const Parcel> parcels, int ranks);

}  // namespace tutti::runtime
