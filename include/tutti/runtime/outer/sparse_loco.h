// SparseLoCo: ranks train alone for `period` steps, then exchange the largest values of how far
// they have gone; what is not sent is kept and comes later.
//
//   e <- beta * e + (outer - local);  sent = top_k(e);  e <- e - sent
//   outer <- outer - rate * mean(sent);  local <- outer
//
// Paper: SparseLoCo (arXiv:2508.15706; its predecessor CCLoco has public code). Exact: the update,
// without outer momentum, for which the error stands in; conservation, to the bit; ties to the
// lowest index; the divisor, which is a choice (Normalise); the rate is applied once (the public
// code applies it to what is accumulated, and again to the step). Reconstructed: values of 2 to 8
// bits are whole numbers times a scale of their tile, not means of bins; a tile is a run of 4096
// elements in the order of the parameters, which tile_order() makes the paper's squares of 64 x 64.
//
// Owns: an outer copy of the parameters, the error and a copy of it, 12 bytes a parameter, and the
//       encoded bytes of all ranks. The rest is as optimizer.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/runtime/coded_gather.h"
#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

/// The places of a matrix's elements such that each square of side x side lies in one piece, where
/// the sides are the largest divisors of rows and columns that are not above 64. 1 row: as it is.
TUTTI_RUNTIME_API std::vector<int64_t> tile_order(int64_t rows, int64_t columns);

struct SparseLoCoSpec {
  int64_t period = 15;
  float rate = 1;
  float beta = 0.999f;                    // how much of the error is kept: 0 to 1
  std::string codec = "top_k:4096:64:2";  // this rank's; another rank may send more or less
  Normalise normalise = Normalise::kWorld;
  std::vector<int64_t> order = {};  // element order[i] is encoded at place i; empty: as they are
};

class TUTTI_RUNTIME_API SparseLoCo final : public OuterOptimizer {
 public:
  /// `params` are equal on all ranks.
  SparseLoCo(OuterGroup group, std::span<const float> params, SparseLoCoSpec spec);
  ~SparseLoCo() override;

  std::span<const float> outer() const;
  /// The rest that this rank has not sent yet, in the order of the spec.
  std::span<const float> error() const;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
