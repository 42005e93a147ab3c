// Activations between the stages of a pipeline over slow links, in a subspace: a stage sends U^T x,
// the next one takes U U^T x for x, where the columns of U are orthonormal. k / d of the bytes are
// sent.
//
// Paper: Heterogeneous Low-Bandwidth Pre-Training (arXiv:2601.02360), beside SparseLoCo: replicas
// on slow links share a model as a pipeline. Known from its abstract: projection on an orthonormal
// basis, for activations and gradients, of weak links only. Exact here: x in the span of U comes
// through, up to rounding; else the error is |(I - U U^T) x|. Reconstructed: a basis has a version,
// which every message carries, so that a stage with another basis finds out. How U is learned is
// the caller's.
//
// Owns:     the basis. Units: rows of d floats; sums of products in fp32, in ascending order.
// Ordering: a send meets the receive of the same number of rows on the other rank.
// Threads:  one at a time.
// Errors:   throws Error for a basis whose columns are not orthonormal to 1e-5, for other shapes or
//           versions (kRanksDiffer, on the receiver), and for values that are not finite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

class TUTTI_RUNTIME_API Subspace {
 public:
  /// `basis` has d rows of k numbers, the columns being the basis; version 0, 1, 2 ...
  Subspace(std::vector<float> basis, int64_t d, int64_t k, int64_t version);

  int64_t dimension() const { return k_; }
  int64_t version() const { return version_; }

  /// Rows of d floats to rows of k, and back.
  std::vector<float> project(std::span<const float> rows) const;
  std::vector<float> rebuild(std::span<const float> projected) const;

  /// Sends the rows to a rank, which receives as many.
  void send(tuttiComm_t comm, int peer, std::span<const float> rows) const;
  std::vector<float> receive(tuttiComm_t comm, int peer, int64_t rows) const;

 private:
  std::vector<float> basis_;
  int64_t d_;
  int64_t k_;
  int64_t version_;
};

}  // namespace tutti::runtime
