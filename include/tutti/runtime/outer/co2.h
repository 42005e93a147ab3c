// CO2: the whole average of a round is hidden behind the next round.
//
//   round n       inner steps | wait for the average of round n - 1, outer step, begin the next
//   average n-1   |-----------------|
//
//   m <- momentum * m + (shared - average) / penalty;  m <- clip(m);  shared <- shared - rate * m
//   the average of the present parameters begins;  parameters <- shared
//
// Paper: CO2 (arXiv:2401.16265). Exact: the update, one round of staleness, sharding of m and
// shared over ranks. The public code's clip is a call whose result is dropped; here it clips.
// Reconstructed: the penalty of the staleness gap is a constant of 1 or more, as in that code (the
// paper's formula is not known); an average is that of the parameters as a round leaves them,
// before they are replaced; the first boundary only begins. finish() takes over the last average.
//
// Owns: shared parameters and momentum, 8 bytes a parameter, divided by the number of shards;
// copies
//       of the parameters as they were shared last and as they are averaged, 8 bytes a parameter; a
//       buffer for the average of this rank's shard. With shards the owners' results are gathered
//       within boundary(). The rest is as optimizer.h says.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

struct Co2Spec {
  int64_t period = 48;
  float momentum = 0.5f;
  float rate = 1;
  float penalty = 1;
  float clip = std::numeric_limits<float>::infinity();  // of each element of m; infinity: no clip
  int shards = 0;  // ranks 0 .. shards - 1 own one each; 0: every rank owns everything
};

class TUTTI_RUNTIME_API Co2 final : public OuterOptimizer {
 public:
  /// `params` are equal on all ranks.
  Co2(OuterGroup group, std::span<const float> params, const Co2Spec& spec);
  ~Co2() override;

  /// This rank's shard of the shared parameters; all of them without shards.
  std::span<const float> shared() const;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
