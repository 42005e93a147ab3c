// Ranks of several hosts over RDMA cards: InfiniBand, and RoCE of version 2.
//
// Each pair of ranks of a communicator has a queue pair of its own, made when the communicator is
// made, and a socket on which both have proved their key and which tells when one of them dies.
// Where there is no card, or it cannot be used, the transport reaches nobody and says why.
//
// Owns: nothing. Threads: as transport::Transport. Errors: see docs/rdma.md.
#pragma once

#include <memory>

#include "src/transport/member.h"
#include "src/transport/transport.h"
#include "transports/verbs/adapter.h"

namespace tutti::transports::verbs {

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

/// The same with cards and a library of the caller's choice, and nothing in common with others of
/// the process: for tests.
Result<std::unique_ptr<transport::Transport>> make_with(const transport::Member& member,
                                                        const Equipment& equipment);

}  // namespace tutti::transports::verbs
