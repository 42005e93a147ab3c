// TCP sockets and their addresses. All sockets made here are non-blocking.
//
// Errors: Status with errno's text; the caller adds which peer was meant. Threads: no state.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/fork.h"
#include "src/base/status.h"

namespace tutti::transports::tcp {

/// A numeric IPv4 or IPv6 address with a port.
struct IpEndpoint {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  /// An address that means "any of mine": good to listen on, useless to publish.
  bool wildcard() const;
  /// "10.0.0.1" or "fe80::1%eth0".
  std::string host() const;
  uint16_t port() const;
  /// "10.0.0.1:4000" or "[fe80::1%eth0]:4000".
  std::string text() const;
};

Result<IpEndpoint> parse_endpoint(const std::string& host, uint16_t port);

Result<KeptFd> listen_on(const IpEndpoint& endpoint);
Result<IpEndpoint> local_endpoint(int fd);
/// Begins to connect: the socket is writable when that has succeeded or failed (door/call.h).
/// kUnsupported: this process cannot open such a socket.
Result<KeptFd> dial(const IpEndpoint& endpoint);
/// Turns off the waiting of small messages for more to send (TCP_NODELAY).
Status make_fast(int fd);
/// Has the kernel ask the peer's kernel now and then whether it is still there, which it does only
/// while nothing waits to be sent. is_silent() tells the result; the kernel itself ends the
/// connection later.
Status keep_alive(int fd, uint64_t silence_ns);
/// Whether the peer's kernel has acknowledged nothing for so long, though it was asked again and
/// again. A kernel acknowledges also where the process is stopped, or reads nothing. The socket is
/// connected.
bool is_silent(int fd, uint64_t silence_ns);
std::string silence_text(uint64_t silence_ns);
/// The bytes that the peer's kernel has not acknowledged yet.
size_t unacknowledged_bytes(int fd);

}  // namespace tutti::transports::tcp
