// Calls on streams that are captured: they go into the graph and run whenever it runs.
//
// Threads: the caller's. Errors: of put_captured() the graph may have some of a call; a run of it
// lets its streams go on, with undefined output.
#pragma once

#include <vector>

#include "src/api/members.h"

namespace tutti::api {

/// Those on captured streams, taken out of the members, as order_for_streams() has them.
/// kInvalidUsage: only some streams of one member are captured.
Result<std::vector<GroupMember>> take_captured(std::vector<GroupMember>& members);
/// Puts them into their graphs; their handles are told.
Status put_captured(std::vector<GroupMember>& members);

}  // namespace tutti::api
