// Shared memory between processes of one host and one user.
//
// Of two ranks the lower one connects to the higher one's abstract unix socket. After the handshake
// each gives the other the descriptor of its arena. No file is made anywhere: not in /dev/shm, not
// in /tmp.
//
// Owns: a listening socket for the life of the transport. Threads, Errors, Ordering: see
// src/transport/transport.h. Messages name rank, host and what to do.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::shm {

/// `member` outlives the transport; it needs an arena.
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::shm
