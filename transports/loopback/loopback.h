// Ranks that are threads of one process: the peer's memory is this rank's memory.
//
// Owns: a link owns a mapping of its own of the peer's arena, so that the peer may leave first;
// what import() and read() show is the peer's, as long as it keeps it. Threads, Errors: see
// src/transport/transport.h.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::loopback {

/// `member` outlives the transport; it needs an arena.
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::loopback
