// Collectives over the levels of a tree, composed of algorithms that know none.
//
// The children of a node do together what as many ranks would do by an algorithm without levels:
// reduce-scatter from the innermost level outwards, all-gather back inwards. A team (shares.h) runs
// that algorithm's schedule, with the blocks of the team in place of a block. So a message belongs
// to the level at which the algorithm was asked, every cut is crossed by as little as the shares
// allow, and the depth at a level is that of the level's algorithms among the children.
//
// A broadcast goes outwards along the nodes that hold the root, so that every child of them has the
// data spread over its ranks, and inwards by all-gathers in the other nodes; a reduce is the same
// backwards. The ranks of a node share what crosses its cut.
//
// Lanes are runs of phases: with n of them the n - 1 joints between phases at which the innermost
// level ends are cut, so that a level that is joined by memory is apart from those behind it first.
// The first step of a rank in a lane comes after its last one in the lane before. So lanes change
// no order within a slice, but the next slice may begin while this one is at an outer level.
//
// Required of the algorithms: with one lane they have one block in every count of elements; a
// reduce-scatter does not read an input block after it has written a scratch block of its size; an
// all-gather forwards from its output. all_reduce, broadcast and reduce have one block.
//
// Threads: pure. Errors: none; without a tree all ranks are on one node.
#pragma once

#include <cstddef>
#include <vector>

#include "algorithms/patterns/shape.h"
#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// The algorithms among the children of a node. Of a collective only those are asked that it needs.
struct Levels {
  schedule::Algorithm (*reduce_scatter)() = nullptr;
  schedule::Algorithm (*all_gather)() = nullptr;
  // Among the children of the outermost node, in place of the other two.
  schedule::Algorithm (*all_reduce)() = nullptr;
  // At the nodes that hold the root of the collective.
  schedule::Algorithm (*broadcast)() = nullptr;
  schedule::Algorithm (*reduce)() = nullptr;
};

schedule::Shape hierarchical_shape(schedule::Collective collective, const schedule::Parameters& p);
schedule::Schedule hierarchical_schedule(schedule::Collective collective, const Levels& levels,
                                         const schedule::Parameters& p, int rank);
/// Counted from the schedules: of one rank for each child of the outermost node where there is no
/// root and all subtrees are alike, else of all.
schedule::Cost hierarchical_cost(schedule::Collective collective, const Levels& levels,
                                 const schedule::Parameters& p);
/// By what ranks hold and what the levels' algorithms pass on; no schedule is made for it.
schedule::LevelLoads hierarchical_loads(schedule::Collective collective, const Levels& levels,
                                        const schedule::Parameters& p);
/// Algorithm::lane_levels.
std::vector<size_t> hierarchical_lane_levels(schedule::Collective collective, const Levels& levels,
                                             const schedule::Parameters& p);
/// Whether the ranks of every node are an aligned run, and the levels' algorithms keep the
/// canonical order.
bool hierarchical_canonical(schedule::Collective collective, const Levels& levels,
                            const schedule::Parameters& p);

/// Fills in the functions of `described`: an all_reduce, reduce_scatter, all_gather, broadcast or
/// reduce.
template <schedule::Collective kCollective, const Levels& kLevels>
schedule::Algorithm hierarchy(schedule::Algorithm described) {
  using schedule::Parameters;
  described.collective = kCollective;
  described.shape = [](const Parameters& p) { return hierarchical_shape(kCollective, p); };
  described.schedule = [](const Parameters& p, int rank) {
    return hierarchical_schedule(kCollective, kLevels, p, rank);
  };
  described.cost = [](const Parameters& p) { return hierarchical_cost(kCollective, kLevels, p); };
  described.max_lanes = kMostLanes;
  described.lane_levels = [](const Parameters& p) {
    return hierarchical_lane_levels(kCollective, kLevels, p);
  };
  described.loads = [](const Parameters& p) { return hierarchical_loads(kCollective, kLevels, p); };
  described.canonical = [](const Parameters& p) {
    return hierarchical_canonical(kCollective, kLevels, p);
  };
  return described;
}

}  // namespace tutti::algorithms::patterns
