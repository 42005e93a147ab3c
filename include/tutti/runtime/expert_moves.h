// Data movement of least-loaded experts (from the paper Least-Loaded Expert Parallelism, LLEP):
// tokens go to the ranks that compute them, weights go to helpers, and the helpers' gradients go
// back.
//
// Exact: the paper's algorithm (least_loaded_spill in assign.h), slices in the global order of an
// expert's tokens (source rank, then the source's own order), one copy of the weights for each
// expert and helper. The gate takes the loads of ranks, as the authors' code does; the paper says
// experts.
//
// Units:   tokens; weights in elements of the caller's.
// Errors:  throws Error and says which number to change.
// Threads: values. Every rank runs the exchange of weights, and its reverse, even if it moves
//          nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/assign.h"
#include "tutti/runtime/reshard.h"

namespace tutti::runtime {

struct ExpertPlan {
  int ranks = 0;
  int experts = 0;
  bool balanced = false;  // below the gate: everything stays with its expert
  Assignment assignment;
};

/// loads[expert] of all ranks together; expert e lives on rank e / (experts / ranks). Spills only
/// if the largest load of a rank is at least `gate` times the mean.
TUTTI_RUNTIME_API ExpertPlan plan_experts(std::span<const int64_t> loads, int ranks,
                                          const SpillRule& rule, double gate);

/// Tokens from `begin` on of one source's tokens for one expert, in the source's order.
struct TokenRun {
  int source = 0;
  int expert = 0;
  int64_t begin = 0;
  int64_t length = 0;
  int target = 0;
  bool operator==(const TokenRun&) const = default;
};
/// The runs of all tokens, ordered by expert, source and begin. counts[source * experts + expert]
/// is the number of tokens that a rank has for an expert.
TUTTI_RUNTIME_API std::vector<TokenRun> route_tokens(const ExpertPlan& plan,
                                                     std::span<const int64_t> counts);

/// For each rank the experts of which it holds a copy as a helper: slot s has the s-th expert that
/// it computes and that lives elsewhere, in expert order.
TUTTI_RUNTIME_API std::vector<std::vector<int>> helper_slots(const ExpertPlan& plan);
/// Moves weights from the buffers of ranks' own experts to the buffers of slots. Each expert has
/// `elements` elements.
TUTTI_RUNTIME_API Resharding push_weights(const ExpertPlan& plan, int64_t elements);
/// Moves gradients, to be run with a sum: the source buffer has those of a rank's own experts and,
/// behind them, those of its slots; the target buffer gets the sums for its own experts.
TUTTI_RUNTIME_API Resharding pull_gradients(const ExpertPlan& plan, int64_t elements);

}  // namespace tutti::runtime
