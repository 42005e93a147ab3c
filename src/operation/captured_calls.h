// Operations on streams that are captured: they go into the graph and run whenever it runs.
//
// Threads: the caller's. Errors: of put_captured() the graph may have some of a call; a run of it
// lets its streams go on, with undefined output.
#pragma once

#include <vector>

#include "src/operation/placed_operation.h"

namespace tutti::operation {

/// Those on captured streams, taken out of the members. A group may name communicators in another
/// order on each rank, but a stream waits for one call after the other: so all ranks put them there
/// by kind and communicator. kInvalidUsage: only some streams of one member are captured.
Result<std::vector<PlacedOperation>> take_captured(std::vector<PlacedOperation>& members);
/// Puts them into their graphs; their handles are told.
Status put_captured(std::vector<PlacedOperation>& members, const StreamThread& thread);

}  // namespace tutti::operation
