// Which mix of tensor, pipeline and data parallelism, and which micro-batch: every way that divides
// is priced, and those that do not fit are counted with their reasons ("Efficient Parallelization
// Layouts"; "Optimizing Distributed Training on Frontier").
//
// Exact: the enumeration, the formula of MFU, bubbles, volumes of Megatron-LM. Reconstructed: the
// memory of activations (34 s b h + 5 b s^2 heads bytes a layer without, 34 s b h with fused
// attention; 16 bytes a parameter for weights, gradients and Adam) and a step as the sum of its
// parts, of which only the gradients' reduction overlaps. It ranks; it does not predict.
//
// Units:   tokens, bytes, nanoseconds; rates in floating point operations per ns.
// Errors:  throws kInvalidInput for models that cannot be, kInfeasible with the reasons where
//          nothing fits.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/runtime/cost.h"

namespace tutti::runtime {

struct ModelShape {
  int64_t layers = 1;
  int64_t hidden = 1;
  int64_t heads = 1;
  int64_t length = 1;  // tokens of a sequence
  int64_t vocabulary = 1;
  bool fused_attention = true;

  /// 12 layers * hidden^2 + vocabulary * hidden. Throws Error beyond 2^63 - 1.
  TUTTI_RUNTIME_API int64_t parameters() const;
  /// Operations for one token, forward and backward: 6 N + 12 L H Q T.
  double flops_per_token() const {
    return 6.0 * static_cast<double>(parameters()) + 12.0 * static_cast<double>(layers) *
                                                         static_cast<double>(hidden) *
                                                         static_cast<double>(length);
  }
};

struct TrainingRun {
  int64_t batch = 1;        // sequences of a step
  double flops_per_ns = 1;  // of a rank, at its peak
  double efficiency = 0.6;  // of computing, of the peak
  Bytes memory{0};          // of a rank
};

struct LayoutChoice {
  int tensor = 1, pipeline = 1, data = 1;
  int64_t micro_batch = 1;
  bool checkpointed = false;  // activations are computed again in the backward pass
  int64_t micro_batches = 1;  // of each replica
  Nanoseconds step{0};
  Bytes memory{0};
  double mfu = 0;
  double bubble = 0;  // (pipeline - 1) / micro_batches
};

struct LayoutSearch {
  std::vector<LayoutChoice> ranked;  // the fastest first; then the smaller micro-batch, no
                                     // checkpoints, and pipelines before tensors
  int candidates = 0;
  std::vector<std::string> refused;  // a reason, and how many it concerns
};
/// Ranks are numbered tensor first, then pipeline, then data, over the machine's levels.
TUTTI_RUNTIME_API LayoutSearch search_layouts(const ModelShape& model, const TrainingRun& run,
                                              const Machine& machine);

/// tokens/s * flops_per_token / peak.
TUTTI_RUNTIME_API double model_flops_utilization(const ModelShape& model, double tokens_per_second,
                                                 double peak_flops_per_second);

}  // namespace tutti::runtime
