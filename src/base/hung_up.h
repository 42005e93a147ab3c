// A peer that has closed its end of a connection, as calls on sockets tell.
//
// Threads: any. Errors: kRemoteError, since nothing is wrong with this process.
#pragma once

#include <cerrno>

#include "src/base/status.h"

namespace tutti {

inline bool hung_up(int error) { return error == ECONNRESET || error == EPIPE; }

inline Status closed_by_peer() { return Status::remote_error("the peer closed the connection"); }

}  // namespace tutti
