// The way of a checked operation: into the open group, the calling thread, or the engine.
#pragma once

#include "src/api/handle.h"
#include "src/api/making.h"
#include "src/comm/request.h"

namespace tutti::api {

tuttiResult_t submit(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream);
tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream);

Status check_stream(tuttiStream_t stream);

/// report(), for a call that belongs to the open group, if there is one: the group runs nothing.
tuttiResult_t refuse(tuttiComm* comm, const Status& status);

/// The making belongs to the open group from now on; false if there is none.
bool add_to_group(const Making& making);
/// The open group holds operations on the communicator.
bool group_uses(const tuttiComm* comm);

tuttiResult_t group_start();
tuttiResult_t group_end();

}  // namespace tutti::api
