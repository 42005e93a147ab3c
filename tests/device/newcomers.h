// Ranks that come to a group, or leave it, in programs of tests: what they tell the others beside
// the communicator, by numbers of the board.
//
// Threads: each member's own. Errors: the member is told.
#pragma once

#include "include/tutti/tutti.h"
#include "tests/support/team.h"

namespace tutti::device_programs {

/// By a member: the id of its group, for newcomers.
void show_id(testing_support::Member& member, const tuttiUniqueId& id);
/// By a newcomer, which waits for the id. Null after a failure.
tuttiComm_t come(testing_support::Member& member);

/// By a member: it has gone on without a rank that leaves.
void go_on(testing_support::Member& member);
/// By a rank that the others remove: it lives until so many of them have gone on, and then aborts.
void leave(testing_support::Member& member, int others, tuttiComm_t comm);

}  // namespace tutti::device_programs
