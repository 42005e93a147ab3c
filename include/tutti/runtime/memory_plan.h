// Which part of a model's state and activations stays on the device: chosen by a cost model
// (ProTrain, arXiv:2406.08334).
//
// State lies in equal chunks in the order of execution. The first ones persist on the device, the
// others live on the host and pass through a few device buffers, loaded ahead. Activations of a
// block are kept, swapped to the host and back, or recomputed; swapped blocks lie so far apart that
// one swap ends under the blocks between.
//
// Exact: the iteration time T_fwd + max(T_bwd + T_device_update, T_host_update), passes as the sum
// of the longer of computing and communication, the four numbers searched exhaustively. A
// reconstruction: which blocks are swapped (every interval-th from the first) or recomputed (the
// first of the others), and that swaps are free at that distance. Not taken over: the optimizer on
// the host, whose time is a number here, and profiling.
//
// Units:   nanoseconds, bytes.
// Errors:  throws Error and says what to change; kInfeasible names the least memory that works.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

/// Parameters in the order of execution, each in one chunk: how many chunks they fill.
TUTTI_RUNTIME_API int pack_chunks(std::span<const Bytes> parameters, Bytes chunk);

struct MemoryBlock {
  int chunks = 1;                  // of its own parameters
  Nanoseconds forward{1'000'000};  // more than 0
  Nanoseconds backward{2'000'000};
  Nanoseconds swap{0};   // of its activations, one way
  Bytes activations{0};  // from its forward to its backward
  Bytes input{0};        // that is left of them if they are recomputed
  Bytes transient{0};    // while either pass runs
};

struct ChunkCosts {
  Bytes parameters{1};    // of a chunk; gradients take their place
  Bytes states{8};        // of one that persists: parameters, gradients, optimizer
  Nanoseconds upload{0};  // a rank's share, from the host
  Nanoseconds gather{0};  // all shares, from the other ranks
  Nanoseconds scatter{0};
  Nanoseconds offload{0};
  Nanoseconds device_update{0};  // the optimizer's
  Nanoseconds host_update{0};
};

struct MemoryModel {
  std::vector<MemoryBlock> blocks;
  ChunkCosts costs;
};

struct MemoryPlan {
  int persist = 0;    // chunks
  int buffers = 0;    // of a chunk
  int swap = 0;       // blocks
  int recompute = 0;  // blocks
  bool operator==(const MemoryPlan&) const = default;
};

/// Blocks from one swapped one to the next: the longest swap takes no longer than their forward
/// passes.
TUTTI_RUNTIME_API int swap_interval(const MemoryModel& model);

enum class ActivationPlace { kDevice, kHost, kRecomputed };
TUTTI_RUNTIME_API std::vector<ActivationPlace> places_of(const MemoryModel& model,
                                                         const MemoryPlan& plan);

struct MemoryVerdict {
  Nanoseconds time{0};  // of an iteration
  Bytes peak{0};
};
TUTTI_RUNTIME_API MemoryVerdict judge(const MemoryModel& model, const MemoryPlan& plan);

/// The fastest plan within the limit; of equal ones that with the fewest swaps, recomputations and
/// chunks on the host.
TUTTI_RUNTIME_API MemoryPlan search_memory(const MemoryModel& model, Bytes limit);

/// One step without the host's optimizer. Chunks are gathered on comm high and reduce-scattered on
/// comm low, in place; uploads, offloads and swaps are on the copy track. A task of a chunk has its
/// number as tag, of all in one order; of a swap, the block's.
TUTTI_RUNTIME_API Timeline chunked_step(const MemoryModel& model, const MemoryPlan& plan,
                                        int ranks);

}  // namespace tutti::runtime
