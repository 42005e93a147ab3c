// Describes the part of a window, from the pointer and size that a caller gives.
#pragma once

#include "src/api/process.h"
#include "src/comm/window.h"

namespace tutti::api {

/// Completes `mine`, of which base and size are set: how processes of this host map it, if they
/// can. kInvalidArgument, in the name of `call`: there is no such memory.
Status describe_window(const char* call, Process& process, comm::WindowMemory& mine);

}  // namespace tutti::api
