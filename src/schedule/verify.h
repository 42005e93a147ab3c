// Proves a collective before it runs: every rank's schedule, symbolically, for every count at once.
//
// The verifier proves:
//   values    every element of every rank's output is exactly the required contributions, each once
//   matching  the messages of every channel pair up: as many, as many blocks, of the same sizes
//   deadlock  with `least_credit` nothing ever waits in a circle, neither with a thread for every
//             lane nor with one thread for a rank that runs the steps in array order
//   hazards   no two lanes of a rank touch the same elements, one writing, in no certain order
//   cost      the author's figures are the counted ones, for every node of a tree too
//
// Credit c >= 1: a channel holds at most c messages that were sent and not yet consumed; a SEND
// waits until *all* its channels have room and then completes. Credit 0 is the rendezvous: a SEND
// offers its message to all peers at once and completes when every one of them has consumed it. A
// MOVE consumes nothing until *all* its messages are there, and then consumes all of them: that is
// what a one-pass reduction from the senders' memory does, and every executor that takes messages
// earlier (one by one as they come, or in operand order) releases the senders no later and so
// cannot deadlock where this one does not. It follows that a MOVE naming one channel twice needs
// credit 2: at rendezvous the second is never offered.
//
// Errors:  the Status is the counter-example: rank, step as text, what was expected, what was
//          found. Any bytes may be verified; work and memory are bounded, a schedule beyond the
//          bounds is refused.
// Threads: pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/algorithm.h"
#include "src/schedule/layout.h"
#include "src/schedule/schedule.h"

namespace tutti::schedule {

/// Whether input and output are separate buffers, or the call is in place: buffers of one size are
/// the same buffer; a smaller one of rank r is part r of the larger one (Traits::nests).
enum class Placement : uint8_t { kSeparate, kInPlace };

struct VerifyOptions {
  Placement placement = Placement::kSeparate;
  const Cost* declared = nullptr;              // compared with the counted cost
  const NodeTree* tree = nullptr;              // where the ranks live: loads are counted
  const LevelLoads* declared_loads = nullptr;  // compared with the counted ones; needs `tree`
  bool hazards =
      true;  // false: trusts the lanes; costs ranks * lanes * steps where they share blocks
};

/// Facts about a schedule that was accepted.
struct Verdict {
  Cost cost;
  LevelLoads loads;           // if a tree was given
  uint32_t least_credit = 0;  // 0: rendezvous
  uint64_t steps = 0;         // of all ranks
  uint64_t messages = 0;      // of all ranks

  /// Every element is the one expression of the deterministic mode: the balanced binary tree over
  /// group ranks. A tree fold counts as its tree and a fold of two as a pair; a list fold of three
  /// or more rounds once and is therefore no node of that tree. Operands of a pair may be swapped.
  /// True if nothing reduces.
  bool canonical = true;

  /// All ranks that receive an element receive the same expression, hence the same bits.
  bool agrees = true;

  /// all_to_all: some rank holds a block that it neither sends nor receives, so with private
  /// counts it would not know the size. Of the other collectives every rank knows all counts from
  /// its own row and column.
  bool forwards = false;

  /// Some block holds elements that belong to another rank's share than its own: right only because
  /// all counts are equal. No v-collective runs such a schedule. Blocks that an all_to_all forwards
  /// through scratch are excepted, since a size round tells their sizes.
  bool needs_equal_counts = false;
};

Result<Verdict> verify(const Shape& shape, std::span<const Schedule> schedules,
                       const VerifyOptions& options = {});

/// The same in each of `placements`, in their order, whatever options.placement says. Claims that
/// do not depend on the placement are proved once.
std::vector<Result<Verdict>> verify(const Shape& shape, std::span<const Schedule> schedules,
                                    std::span<const Placement> placements,
                                    const VerifyOptions& options);

/// "depth 2, 6 messages, bytes 3/2, published 1, moved 2, work 8, scratch 0"
std::string print(const Cost& cost);
bool same_cost(const Cost& a, const Cost& b);

/// "level 0: depth 2, node 0 out 3/2 in 3/2, ...; level 1: ..."
std::string print(const LevelLoads& loads);

}  // namespace tutti::schedule
