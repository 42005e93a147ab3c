// Proves plans before they run: the micro-operations of all ranks, executed symbolically.
//
// The verifier proves these claims about the plans of one or several consecutive calls, on rings so
// small that frames and cells are used again within the run:
//   values    every output element is exactly the required contributions of this call, each once,
//             scaled and divided as an average wants it
//   races     no two accesses to one byte of any memory, one of them a write, without an order
//             between them: slots, cells, scratch, landing zones, and user memory, which its owner
//             may touch at any time before it enters and after it returns
//   progress  nothing waits for ever
//   facts     what every rank assumes of the others is true: advance, cells, frames, slices, and in
//             a v-collective what each has for each
//
// One interleaving is executed, and that is enough. Flags and counters only rise, so a wait that
// can go on can always go on: whether the run ends does not depend on the interleaving. A wait
// takes over only what the *first* sufficient signal carries, so the order computed here holds in
// every interleaving. If every two conflicting accesses are in that order, every read sees the one
// last write before it whatever the timing: all interleavings compute the same values as this one.
//
// Each lane is a thread of its own, though an executor may run them in one: engines may differ by
// lane. The proof is about the plan; that an executor follows it is the claim of that executor's
// tests.
//
// Errors:  the Status is the counter-example: ranks, calls, slices, micro-operations and the
//          memory.
// Threads: pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/plan/match.h"
#include "src/plan/plan.h"
#include "src/plan/walk.h"
#include "src/schedule/layout.h"

namespace tutti::plan {

/// One call of a group: the plans of all its ranks.
struct PlanSet {
  schedule::Shape shape;
  group::GroupPointer group;
  uint64_t count = 0;
  std::vector<bool> in_place;                        // by rank
  std::vector<Plan> plans;                           // by rank
  std::vector<schedule::CountVectors> vectors = {};  // by rank; empty: equal counts
};

/// Share `index` of a buffer of `rank`, and the elements up to the end of the last share.
schedule::Extent share_of(const PlanSet& set, uint32_t rank, bool output, uint32_t index);
uint64_t elements_of(const PlanSet& set, uint32_t rank, bool output);

struct VerifyPlanOptions {
  uint32_t rounds = 3;             // the calls are made so many times over
  uint32_t regions = 2;            // of every staging ring and of the cell ring
  uint32_t frames_per_region = 2;  // of the largest plan: a region has no more room
  uint32_t regions_per_frame = 1;  // more: the largest plan's frames span regions
  FaultyRules walk = {};           // for tests: rules that every rank breaks
  // Each rank does everything in one order, in which a machine that only enqueues would put it
  // into queues (lane_turns.h), and stops at its first wait: so progress is proved for engines the
  // queues of which share one of the hardware. Races are those of lanes beside each other.
  bool in_one_queue = false;
};

/// The calls are made by all ranks in the order given, over and over, always with the same buffers.
Status verify_plans(std::span<const PlanSet* const> calls, const VerifyPlanOptions& options = {});
Status verify_plans(const PlanSet& call, const VerifyPlanOptions& options = {});

}  // namespace tutti::plan
