// Two lanes of a rank run in any order that channels and `after` leave them. So two accesses of
// different lanes to one atom, one of them a write, must be ordered in every execution: vector
// clocks.
//
// Two steps are ordered by these rules:
//   - steps of one lane run one after the other; so a rank with one lane cannot race
//   - a step begins when every step it comes `after` is complete
//   - a message proves that everything *before* its SEND is done; not that the SEND itself is,
//     whose other receivers may still be reading the source
//   - a MOVE from one message and nothing else writes after that message; any other may begin with
//     the sources it has, so its messages order only what follows it
//
// Slices: every lane walks the slices of a long call by itself, so one lane may be in slice s
// while another is in slice s+1. Piece k of a block and piece k+1 of the same block are disjoint,
// blocks of one space are disjoint, and scratch exists once per slice in flight: different slices
// never touch the same bytes. There is one way to break this, two blocks of an in-place call that
// overlap without being the same interval: piece k of one lies in piece j of the other.
// check_slices() refuses that where one of the two is written, for one lane too: even in one lane
// slice 0 would read what slice 1 has yet to write.
#pragma once

#include <span>

#include "src/base/status.h"
#include "src/schedule/verify_match.h"

namespace tutti::schedule::verifier {

Status check_slices(const Program& program);

Status check_hazards(const Program& program, const Matching& matching,
                     std::span<const StepRef> order);

}  // namespace tutti::schedule::verifier
