// Ranks that are threads of one process: the peer's memory is this rank's memory.
//
// Owns: nothing but its card. Threads, Errors: see src/transport/transport.h. Lifetime: a link
// shows the peer's arena, which must live as long as the link (communicators of one process are
// destroyed together).
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::loopback {

/// `member` outlives the transport; it needs an arena.
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::loopback
