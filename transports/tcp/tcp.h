// Messages over TCP, IPv4 and IPv6: reaches every rank, so it is registered last.
//
// Owns: nothing. The process has a listener for each address and a connection for each pair of
// members (connector.h), which last as long as a transport uses them. Threads, Errors, Ordering:
// see src/transport/transport.h. Links connect at their first use. Not a byte is believed before
// the handshake, and none of a communicator before both ends have proved its key. Data is
// authenticated by the connection, not encrypted.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transports::tcp {

/// Listens on member.bind_address. `member` outlives the transport.
Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member);

}  // namespace tutti::transports::tcp
