// Abstract unix sockets: they live in no file system and vanish with their process, so that nothing
// is left behind by kill -9. Anybody on the host may connect; the peer's user is checked, then the
// handshake.
//
// Errors: Status with errno's text; the caller adds who was meant. Threads: no state. Units:
// deadlines of CLOCK_MONOTONIC.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::transports::shm {

struct LocalListener {
  Fd fd;
  std::string name;  // random
};
Result<LocalListener> listen_locally();
Result<Fd> dial_locally(const std::string& name, uint64_t deadline_ns);

/// The process at the other end, in this process's view; kUnsupported if it is another user's.
Result<pid_t> peer_process(int socket);

/// `bytes` and, with their first byte, a descriptor. `bytes` must fit into an idle socket.
Status send_with_descriptor(int socket, const void* data, size_t bytes, int descriptor);
/// Exactly `bytes` and exactly one descriptor.
Result<Fd> receive_with_descriptor(int socket, void* data, size_t bytes, uint64_t deadline_ns);

}  // namespace tutti::transports::shm
