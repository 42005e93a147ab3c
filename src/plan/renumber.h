// A plan for an engine that knows the ranks of its host alone, by numbers of its own.
//
// Threads: pure. Errors: none; a plan names near ranks in all but its messages between hosts.
#pragma once

#include <cstdint>
#include <span>

#include "src/plan/plan.h"

namespace tutti::plan {

/// The same plan with other numbers for the ranks whose counters, rings and buffers it names:
/// `numbers[rank]`. The ends of messages between hosts keep theirs.
Plan renumber(const Plan& plan, std::span<const uint32_t> numbers);

}  // namespace tutti::plan
