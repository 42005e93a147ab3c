#include "transports/tcp/socket.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "src/base/clock.h"

namespace tutti::transports::tcp {
namespace {

Status failed(const char* call) {
  return Status::system_error(std::string(call) + ": " + errno_text(errno));
}

Status set_nonblocking(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return failed("fcntl(F_GETFL)");
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (fcntl(fd, F_SETFL, wanted) < 0) return failed("fcntl(F_SETFL)");
  return {};
}

Result<Fd> open_socket(const Endpoint& endpoint) {
  Fd fd(socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return failed("socket");
  return fd;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

bool Endpoint::wildcard() const {
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr == INADDR_ANY;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

std::string Endpoint::host() const {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(get(), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

uint16_t Endpoint::port() const {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

std::string Endpoint::text() const {
  const std::string name = address.ss_family == AF_INET6 ? "[" + host() + "]" : host();
  return name + ":" + std::to_string(port());
}

Result<Endpoint> parse_endpoint(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (host.empty() || error != 0) {
    if (error == 0) freeaddrinfo(found);
    return Status::invalid_argument("'" + host + "' is not a numeric IPv4 or IPv6 address");
  }
  Endpoint endpoint;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return endpoint;
}

std::string errno_text(int error) { return std::generic_category().message(error); }

int poll_timeout_ms(uint64_t deadline_ns) {
  constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;
  constexpr uint64_t kLongestMs = 60'000;
  const uint64_t now_ns = monotonic_ns();
  if (now_ns >= deadline_ns) return 0;
  const uint64_t left_ms = (deadline_ns - now_ns - 1) / kNanosecondsPerMillisecond + 1;
  return static_cast<int>(std::min(left_ms, kLongestMs));
}

bool wait_ready(int fd, short events, uint64_t deadline_ns) {
  pollfd entry{fd, events, 0};
  for (;;) {
    if (poll(&entry, 1, poll_timeout_ms(deadline_ns)) > 0) return true;
    if (monotonic_ns() >= deadline_ns) return false;
  }
}

Result<Fd> listen_on(const Endpoint& endpoint) {
  Result<Fd> fd = open_socket(endpoint);
  if (!fd.ok()) return fd;
  const int on = 1;
  if (endpoint.address.ss_family == AF_INET6 &&
      setsockopt(fd.value().get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) {
    return failed("setsockopt(IPV6_V6ONLY)");
  }
  if (bind(fd.value().get(), endpoint.get(), endpoint.bytes) < 0) return failed("bind");
  if (listen(fd.value().get(), SOMAXCONN) < 0) return failed("listen");
  return fd;
}

Result<Endpoint> local_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.bytes = sizeof endpoint.address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.bytes) < 0) {
    return failed("getsockname");
  }
  return endpoint;
}

Result<Fd> accept_one(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return Fd(fd);
    // A caller that gave up while it waited is nobody's error.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Fd();
    return failed("accept");
  }
}

Result<Fd> dial(const Endpoint& endpoint, uint64_t deadline_ns) {
  Result<Fd> fd = open_socket(endpoint);
  if (!fd.ok()) return fd;
  const int socket = fd.value().get();
  if (connect(socket, endpoint.get(), endpoint.bytes) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return failed("connect");
  if (!wait_ready(socket, POLLOUT, deadline_ns)) return Status::timeout("no answer in time");
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0) return failed("getsockopt");
  errno = error;
  if (error != 0) return failed("connect");
  return fd;
}

Status make_fast_and_nonblocking(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) {
    return failed("setsockopt(TCP_NODELAY)");
  }
  return set_nonblocking(fd, true);
}

Status make_blocking(int fd) { return set_nonblocking(fd, false); }

size_t unacknowledged_bytes(int fd) {
  int bytes = 0;
  if (ioctl(fd, SIOCOUTQ, &bytes) < 0 || bytes < 0) return 0;
  return static_cast<size_t>(bytes);
}

}  // namespace tutti::transports::tcp
