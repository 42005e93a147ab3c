// Pipelines whose micro-batches skip stages, or visit two neighbours in the other order, so that
// slow nodes and links hold up nobody (SkipPipe, arXiv:2502.19913).
//
// A micro-batch begins on a node of stage 0, which it never skips, visits one node of each of its
// other stages, returns to its first node for the loss, and goes the same way back.
//
//     node of stage 0   | F0 |              | loss 0 |               | B0 |
//     node of stage 2        | F0 |                       | B0 |              stage 1 is skipped
//     node of stage 3             | F0 |        | B0 |
//
// Exact: what a path is, the bounds on nodes and stages, the best of several candidates. Ours:
// micro-batches choose their ways one after the other, each the one that ends first beside those
// that are there, in several tries that look at the ways in other orders; where there are few
// plans, all are tried. The paper's search branches on conflicts instead. The convergence of
// training is the caller's affair.
//
// Units:   nanoseconds, bytes. A node is a rank.
// Errors:  throws Error; kInfeasible says which bound leaves no way.
// Threads: pure functions: equal numbers, the seed among them, give equal plans on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct SkipPipeSpec {
  std::vector<int> stage_of;  // of each rank; every stage has one at least
  int micro_batches = 4;
  int path_length = 0;  // stages that a micro-batch visits, stage 0 among them
  int node_memory = 1;  // micro-batches that visit a node at most
  bool swaps = false;   // neighbouring stages of a path may change places, but for stage 0
  std::vector<Nanoseconds> forward;   // of a micro-batch on each rank
  std::vector<Nanoseconds> backward;  // likewise
  Nanoseconds loss{0};
  std::vector<Nanoseconds> transfer;  // ranks * ranks: of a message from row to column
  Bytes message{0};
  Bytes activations{1};          // of a micro-batch on a node
  int orders = 32;               // in which micro-batches choose, that are tried
  std::optional<uint64_t> seed;  // of these orders; must be given
};

struct SkipVisit {
  int rank = 0;
  Nanoseconds begin{0};
  Nanoseconds end{0};
};
struct SkipPath {
  std::vector<int> ranks;         // the first one of stage 0
  std::vector<SkipVisit> visits;  // forward, the loss, backward: 2 * path_length + 1
};
struct SkipPlan {
  std::vector<SkipPath> paths;  // of each micro-batch
  Nanoseconds expected{0};      // when the last visit ends
  bool is_best = false;         // of all plans that choose one after the other
};

TUTTI_RUNTIME_API SkipPlan plan_paths(const SkipPipeSpec& spec);

/// Throws where a path visits a stage twice, or none of stage 0, or too few; where a rank has more
/// micro-batches than it holds, or two at a time; where a visit begins before its message is there.
TUTTI_RUNTIME_API void check_paths(const SkipPipeSpec& spec, std::span<const SkipPath> paths);

/// Items are micro_batch * (2 * path_length + 1) + the place of the visit.
TUTTI_RUNTIME_API Timeline skip_pipeline(const SkipPipeSpec& spec, const SkipPlan& plan);

}  // namespace tutti::runtime
