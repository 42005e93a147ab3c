// The open group of a thread: NCCL's rules on top of tutti.h's groups.
//
// tutti.h holds the operations and the communicators that are being made. A call that only the
// drop-in refuses must keep the group from running too, and windows, which are collective, must
// wait for its end: one thread may register them for several ranks.
//
// Threads: a group belongs to its thread.
#pragma once

#include <cstdint>
#include <functional>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/windows.h"

namespace tutti::nccl {

ncclResult_t start_group();
ncclResult_t end_group();
/// Ends the group without running anything; how long it should take.
ncclResult_t simulate_group(uint64_t* nanoseconds);
/// Closes every group of this thread without running anything.
void discard_group();
bool in_group();
/// The open group ends with the next end.
bool is_outermost();

/// Passes on the result of a function whose failure is the open group's: what a program puts into a
/// group, and what makes or ends communicators. The first one keeps the group from running. Calls
/// by which a program only asks for something, or tries it out, do not concern the group, as with
/// NCCL.
ncclResult_t part_of_group(ncclResult_t result);

/// Registers the window: now, or behind the open group.
ncclResult_t add_or_defer(const WindowCall& call);

/// For the end of the open group, whether it ran or not.
void at_group_end(std::function<void()> work);

}  // namespace tutti::nccl
