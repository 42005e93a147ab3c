// Whether a thread of this process is in a call of the library and waits there, for tests of what
// another thread does to it: by what the flight recorder says.
//
// Threads: any. Errors: await_waiting() returns false after a minute.
#pragma once

#include <cstddef>

namespace tutti::testing_support {

/// Until so many communicators of this process in which it has rank `rank` are in a call that waits
/// for a peer.
bool await_waiting(int rank, size_t communicators = 1);

}  // namespace tutti::testing_support
