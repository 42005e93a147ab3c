// Ranks of several hosts by UCX: for fabrics that reliable connections of verbs do not serve well,
// and their cards alone. It is used only where TUTTI_TRANSPORTS names it.
//
// UCX identifies no sender, so whoever reaches a worker can write to this process's memory: the
// fabric is trusted (docs/security.md). Over TCP it runs for tests alone, with TUTTI_INSECURE=1.
// Where there is no libucp, or no network for it, the transport reaches nobody and says why.
//
// Owns: nothing. Threads: as transport::Transport. Errors: see docs/rdma.md; kInvalidUsage in a
// forked child of a process that uses UCX.
#pragma once

#include <memory>

#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::ucx {

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::ucx
