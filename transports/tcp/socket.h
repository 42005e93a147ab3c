// The few things Tutti asks of the operating system's sockets.
//
// Owns: an Fd closes its descriptor. Units: nanoseconds of CLOCK_MONOTONIC for deadlines. Errors: Status
// with errno's text; the caller adds who was meant. Threads: no state.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace tutti::transports::tcp {

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A numeric IPv4 or IPv6 address with a port.
struct Endpoint {
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

Result<Endpoint> parse_endpoint(const std::string& host, uint16_t port);

std::string errno_text(int error);

/// Waits for poll() events; false when the deadline passed first.
bool wait_ready(int fd, short events, uint64_t deadline_ns);

/// What remains until the deadline as poll() wants it: rounded up, at most one minute.
int poll_timeout_ms(uint64_t deadline_ns);

Result<Fd> listen_on(const Endpoint& endpoint);
Result<Endpoint> local_endpoint(int fd);
/// One waiting connection; invalid (and OK) when there is none.
Result<Fd> accept_one(int listener);
/// Connects; bounded by the deadline.
Result<Fd> dial(const Endpoint& endpoint, uint64_t deadline_ns);
/// Small messages leave at once, and no call ever waits.
Status make_fast_and_nonblocking(int fd);
Status make_blocking(int fd);
/// Bytes that the peer's kernel has not acknowledged yet.
size_t unacknowledged_bytes(int fd);

}  // namespace tutti::transports::tcp
