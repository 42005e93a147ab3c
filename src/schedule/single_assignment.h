// The same schedule with a scratch block of its own for every value.
//
// With private counts (docs/internals/vector_calls.md) the blocks that a rank forwards have lengths
// only other ranks know, and a scratch block that holds one value after another has one length
// after another. With single assignment a block has one length, which a *size round* learns: the
// schedule itself runs once over blocks of 8 bytes that hold the lengths, and leaves in every
// scratch block the length of what will lie there.
//
// Threads: pure. Errors: none; the schedule has passed the verifier.
#pragma once

#include "src/schedule/schedule.h"

namespace tutti::schedule {

Schedule single_assignment(const Schedule& schedule);

}  // namespace tutti::schedule
