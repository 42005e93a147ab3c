// Ring attention over context-parallel ranks, and its two levels (MTraining; the
// step rules are exact, what a step computes is the caller's affair).
//
// Each rank computes with every rank's keys and values once. Flat: they go round one ring, and a
// step lasts as long as its slowest hop. Two levels: a ring inside each node cycles what the node
// has, while a ring over the nodes brings the next under all of these steps.
//
// Units:   nanoseconds, bytes. Node = rank / gpus.
// Errors:  throws Error for sizes below 1.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "tutti/runtime/sharding.h"
#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct RingSpec {
  int nodes = 1;
  int gpus = 4;                  // of a node
  Nanoseconds prologue{0};       // before the first step, for example what finds a sparse pattern
  Nanoseconds compute{510'000};  // of a step
  Nanoseconds intra{130'000};    // of a hop within a node
  Nanoseconds inter{980'000};    // of a hop between nodes
  Bytes block{1 << 20};          // what travels
};

/// Items are numbered rank * ranks + step. Two buffers a rank.
TUTTI_RUNTIME_API Timeline ring(const RingSpec& spec);
/// The two-level ring; items are numbered as for ring(), with step = outer * gpus + inner. Each
/// ring has two buffers. The outer ring's messages are on the copy track, so that they hold up no
/// hop of the inner one.
TUTTI_RUNTIME_API Timeline two_level_ring(const RingSpec& spec);

/// The balance of ring attention with a sparse mask under a sharding: query block i needs key block
/// i - d for each offset d (a causal mask has all of them).
struct RingBalance {
  double worker = 1;  // the most work of a rank over the mean
  double time = 1;  // the sum over ring steps of the slowest rank, over an even spread of all work
};
TUTTI_RUNTIME_API RingBalance ring_balance(const Sharding& blocks,
                                           std::span<const int64_t> offsets);

}  // namespace tutti::runtime
