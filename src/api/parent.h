// The communicator from which another one is made, or that is edited: what is asked of it first.
//
// Threads: the one that made the call, and a worker. Errors: kInvalidUsage says why the handle may
// not be used so; others name what is still in flight.
#pragma once

#include <string>

#include "src/api/handle.h"
#include "src/base/wait_limit.h"

namespace tutti::api {

/// A call on a communicator that becomes busy with it.
struct ParentCall {
  const char* name = "";  // "tuttiCommSplit"
  tuttiComm_t comm = nullptr;
  bool may_be_revoked = false;
};

/// Whether the call may go on, without asking anybody: the handle is usable, and the open group has
/// nothing on it.
Status check_parent(const ParentCall& call);
bool is_revoked(const tuttiComm& comm);

/// Ends what is in flight, if the call orders it; waits for it otherwise. A communicator that has
/// failed gives up, so that no other rank waits for this one; that is no error. `way_out`: of who
/// waits for too long.
Status quiesce(const char* call, tuttiComm* handle, bool abort, const std::string& way_out,
               const WaitLimit& wait_limit);

}  // namespace tutti::api
