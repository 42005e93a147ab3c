// Ranks of several hosts that are far from each other, by several sockets a link: where
// TUTTI_TCP_FLOWS asks for more than one.
//
// How many follows from the setting, or from the round trip of the socket on which both ranks have
// proved themselves. Links are made with their communicator.
//
// Owns: nothing. Threads: as transport::Transport. Errors: see docs/several_hosts.md.
#pragma once

#include <memory>

#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::flows {

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::flows
