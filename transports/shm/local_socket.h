// Abstract unix sockets: they live in no file system and vanish with their process, so that nothing
// is left behind by kill -9. Anybody on the host may connect; the peer's user is checked, then the
// handshake.
//
// Errors:  kRemoteError where the peer has ended or given up; else Status with errno's text. The
//          caller adds who was meant.
// Threads: no state.
// Units:   deadlines of CLOCK_MONOTONIC.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"

namespace tutti::transports::shm {

struct LocalListener {
  KeptFd fd;
  std::string name;  // random
};
Result<LocalListener> listen_locally();
Result<KeptFd> dial_locally(const std::string& name, const WaitLimit& wait_limit);

/// kUnsupported if the other end belongs to another user.
Status check_user(int socket);

/// The facts beside the bytes of a message for which the kernel vouches.
struct Attachment {
  Fd descriptor;
  pid_t process = 0;  // the sender in the receiver's view; 0 if it is not visible from here
};

/// `bytes` must fit into an idle socket.
Status send_attached(int socket, std::span<const uint8_t> bytes, int descriptor);
/// Exactly `bytes`, and exactly one descriptor and one sender.
Result<Attachment> receive_attached(int socket, std::span<uint8_t> bytes,
                                    const WaitLimit& wait_limit);

}  // namespace tutti::transports::shm
