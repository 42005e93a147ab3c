// An all-reduce from any reduce-scatter and any all-gather.
//
// The shares of the reduce-scatter are the blocks of the all-reduce, and so are those of the
// all-gather. Every rank's reduced share goes straight into its block of the output, where the
// all-gather finds it as its input. The rest of the output is free until the all-gather fills it,
// so the partial sums of a reduce-scatter lie there instead of in scratch: the composition needs
// only the all-gather's scratch.
//
// Required of the two: their shares are cut alike for the same parameters; lane k of both moves
// part k of all shares, so that lane k of the second follows lane k of the first and no other; a
// scratch block of the reduce-scatter has the size of one input block, which is not read after the
// scratch block is written.
#pragma once

#include <algorithm>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

schedule::Shape composed_shape(const schedule::Algorithm& scatter, const schedule::Parameters& p);
schedule::Schedule composed_schedule(const schedule::Algorithm& scatter,
                                     const schedule::Algorithm& gather,
                                     const schedule::Parameters& p, int rank);
schedule::Cost composed_cost(const schedule::Algorithm& scatter, const schedule::Algorithm& gather,
                             const schedule::Parameters& p);

/// Fills in the functions of an all-reduce that is `kScatter` followed by `kGather`.
template <schedule::Algorithm (*kScatter)(), schedule::Algorithm (*kGather)()>
schedule::Algorithm compose(schedule::Algorithm all_reduce) {
  using schedule::Parameters;
  all_reduce.collective = schedule::Collective::kAllReduce;
  all_reduce.max_lanes = std::min(kScatter().max_lanes, kGather().max_lanes);
  all_reduce.shape = [](const Parameters& p) { return composed_shape(kScatter(), p); };
  all_reduce.schedule = [](const Parameters& p, int rank) {
    return composed_schedule(kScatter(), kGather(), p, rank);
  };
  all_reduce.cost = [](const Parameters& p) { return composed_cost(kScatter(), kGather(), p); };
  return all_reduce;
}

}  // namespace tutti::algorithms::patterns
