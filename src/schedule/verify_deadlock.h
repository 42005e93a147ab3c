// Runs the order of events, without values. There are no choices in a schedule: no wildcard, no
// polling, no branch on data. So whether it comes to an end depends on the credit alone, not on
// who is fast, and one run per credit decides.
//
// A rank runs its steps in array order. Lanes that run by themselves wait for less: they have a
// part of that order only. So a credit that is enough here is enough for them.
//
// More credit never hurts: what a step waits for with credit c+1 is a part of what it waits for
// with c.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/verify_match.h"

namespace tutti::schedule::verifier {

/// An order in which all steps of all ranks can run if no channel is ever full: every step comes
/// after the SENDs of its messages and after the earlier steps of its rank. The other passes walk
/// it.
Result<std::vector<StepRef>> run_order(const Program& program, const Matching& matching);

/// The least credit with which nothing deadlocks. Only for a program that has a run_order().
uint32_t least_credit(const Program& program, const Matching& matching);

}  // namespace tutti::schedule::verifier
