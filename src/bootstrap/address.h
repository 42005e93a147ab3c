// A numeric network address, and the two things the rendezvous does with one: listen and dial.
//
// Units: ports in host order, deadlines of CLOCK_MONOTONIC. Errors: Status with errno's text; the
// caller adds which peer was meant. Threads: no state.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/fork.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"

namespace tutti::bootstrap {

/// IPv4 in the first four bytes, or IPv6. Network order, no scope: link-local addresses mean
/// nothing on another host.
struct Address {
  uint8_t family = 0;  // 4, 6
  std::array<uint8_t, 16> bytes{};

  bool operator==(const Address&) const = default;

  static Result<Address> parse(const std::string& numeric);
  /// From AF_INET or AF_INET6.
  static Result<Address> from(const sockaddr* address);
  /// "10.0.0.1", "fd00::1".
  std::string text() const;
  /// "10.0.0.1:4000", "[fd00::1]:4000".
  std::string text(uint16_t port) const;
  /// One machine's own address that others can use: not a wildcard, a multicast one or
  /// IPv6's link-local, which needs a scope.
  bool usable() const;
  bool loopback() const;
  /// 169.254.0.0/16: a cable without a network behind it (a BMC's, or two hosts back to back). That
  /// of IPv6 is not usable().
  bool link_local() const;
};

/// A listening socket and its port; `port` 0 lets the system choose.
struct Listener {
  KeptFd fd;
  uint16_t port = 0;
};
Result<Listener> listen_on(const Address& address, uint16_t port);

/// The connection ends by itself when its other host vanishes (keep_alive()). kRemoteError: nobody
/// listens there; kUnsupported: this process cannot open such a socket.
Result<KeptFd> dial(const Address& address, uint16_t port, const WaitLimit& wait_limit);
/// The same without waiting: is_dialled() says when the connection stands. Its errors are dial()'s.
Result<KeptFd> begin_dial(const Address& address, uint16_t port);
Result<bool> is_dialled(int socket);

/// Of a connection on which one waits for long: a host that does not answer for a minute has
/// closed it.
void keep_alive(int socket);

/// From which of its addresses this host would call `address`: what its routes say, no packet is
/// sent. Nothing where there is no route.
std::optional<Address> source_towards(const Address& address);

}  // namespace tutti::bootstrap
