// Descriptors that a rank gives to its peer over their connection: the kernel copies them, so that
// neither process needs a right to look into the other one.
//
// Threads: one gives and one takes, beside others that watch the connection. Errors: kSystemError
// where descriptors run out; kRemoteError where there is none, or another one.
#pragma once

#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::transports::shm {

/// Mapped::give_descriptor() and take_descriptor(), over the socket of a Liveness.
Status give_descriptor(int socket, int descriptor);
Result<Fd> take_descriptor(int socket, int descriptor);

}  // namespace tutti::transports::shm
