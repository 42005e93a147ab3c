// The way of a checked operation: into the open group, the calling thread, or the engine.
#pragma once

#include "src/api/handle.h"
#include "src/comm/request.h"

namespace tutti::api {

tuttiResult_t submit(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream);
tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream);

Status check_stream(tuttiStream_t stream);

tuttiResult_t group_start();
tuttiResult_t group_end();

}  // namespace tutti::api
