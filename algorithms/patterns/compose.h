// A collective in two phases: one that deals out shares (reduce-scatter, scatter), then one that
// collects them (all-gather, gather). All-reduce, reduce and broadcast can be made so.
//
// The shares of both phases are the blocks of the composition. A rank's own share goes straight
// into its block of the output, where the second phase finds it as its input. The rest of the
// output is free until the second phase fills it, so what the first phase keeps in scratch lies
// there. A rank without output has scratch for both.
//
// Required of the two: their shares are cut alike for the same parameters; lane k of both moves
// part k of all shares, so that lane k of the second follows lane k of the first and no other; a
// scratch block of the first has the size of one input block, which is not read after the scratch
// block is written.
#pragma once

#include <algorithm>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// Two algorithms, and the collective they make up.
struct Phases {
  schedule::Collective collective;
  schedule::Algorithm deal;
  schedule::Algorithm collect;
};
schedule::Shape composed_shape(const Phases& phases, const schedule::Parameters& p);
schedule::Schedule composed_schedule(const Phases& phases, const schedule::Parameters& p, int rank);
/// The sum: right where the same rank is busiest in both.
schedule::Cost composed_cost(const Phases& phases, const schedule::Parameters& p);

template <schedule::Collective kCollective, schedule::Algorithm (*kDeal)(),
          schedule::Algorithm (*kCollect)()>
struct PhasesOf {
  static Phases phases() { return {kCollective, kDeal(), kCollect()}; }
};

/// Fills in the functions of `described`, whose collective is `kCollective`: `kDeal`, then
/// `kCollect`. A cost function that is there already stays.
template <schedule::Collective kCollective, schedule::Algorithm (*kDeal)(),
          schedule::Algorithm (*kCollect)()>
schedule::Algorithm compose(schedule::Algorithm described) {
  using schedule::Parameters;
  using Of = PhasesOf<kCollective, kDeal, kCollect>;
  described.collective = kCollective;
  described.canonical = kDeal().canonical;
  described.max_lanes = std::min(kDeal().max_lanes, kCollect().max_lanes);
  described.shape = [](const Parameters& p) { return composed_shape(Of::phases(), p); };
  described.schedule = [](const Parameters& p, int rank) {
    return composed_schedule(Of::phases(), p, rank);
  };
  if (described.cost == nullptr) {
    described.cost = [](const Parameters& p) { return composed_cost(Of::phases(), p); };
  }
  return described;
}

}  // namespace tutti::algorithms::patterns
