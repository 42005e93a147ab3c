#include "transports/tcp/socket.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"

namespace tutti::transports::tcp {
namespace {

Result<KeptFd> open_socket(const IpEndpoint& endpoint) {
  KeptFd fd = KeptFd::open([&] {
    return socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  });
  if (!fd.valid()) return errno_status("socket");
  return fd;
}

}  // namespace

bool IpEndpoint::wildcard() const {
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr == INADDR_ANY;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

std::string IpEndpoint::host() const {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(get(), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

uint16_t IpEndpoint::port() const {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

std::string IpEndpoint::text() const {
  const std::string name = address.ss_family == AF_INET6 ? "[" + host() + "]" : host();
  return name + ":" + std::to_string(port());
}

Result<IpEndpoint> parse_endpoint(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (host.empty() || error != 0) {
    if (error == 0) freeaddrinfo(found);
    return Status::invalid_argument("'" + host + "' is not a numeric IPv4 or IPv6 address");
  }
  IpEndpoint endpoint;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return endpoint;
}

Result<KeptFd> listen_on(const IpEndpoint& endpoint) {
  Result<KeptFd> fd = open_socket(endpoint);
  if (!fd.ok()) return fd;
  const int on = 1;
  if (endpoint.address.ss_family == AF_INET6 &&
      setsockopt(fd.value().get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) {
    return errno_status("setsockopt(IPV6_V6ONLY)");
  }
  if (bind(fd.value().get(), endpoint.get(), endpoint.bytes) < 0) return bind_status("bind");
  if (listen(fd.value().get(), SOMAXCONN) < 0) return errno_status("listen");
  return fd;
}

Result<IpEndpoint> local_endpoint(int fd) {
  IpEndpoint endpoint;
  endpoint.bytes = sizeof endpoint.address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.bytes) < 0) {
    return errno_status("getsockname");
  }
  return endpoint;
}

Result<KeptFd> dial(const IpEndpoint& endpoint) {
  Result<KeptFd> fd = open_socket(endpoint);
  if (!fd.ok()) return Status(Code::kUnsupported, std::string(fd.status().message()));
  const int error = connect(fd.value().get(), endpoint.get(), endpoint.bytes) == 0 ? 0 : errno;
  errno = error;
  if (error != 0 && error != EINPROGRESS && error != EINTR) return errno_status("connect");
  return fd;
}

Status make_fast(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) {
    return errno_status("setsockopt(TCP_NODELAY)");
  }
  return {};
}

Status keep_alive(int fd, uint64_t silence_ns) {
  constexpr int kOn = 1;
  constexpr uint64_t kProbesInSilence = 4;
  constexpr int kProbes = 2 * kProbesInSilence;  // a call that the kernel ends is made again
  constexpr uint64_t kLongestSeconds = 32'767;   // that the kernel takes
  const uint64_t interval_s = silence_ns / kProbesInSilence / kNanosecondsPerSecond;
  const int seconds = static_cast<int>(std::clamp<uint64_t>(interval_s, 1, kLongestSeconds));
  struct Option {
    int level, name, value;
  };
  for (const Option& option :
       {Option{IPPROTO_TCP, TCP_KEEPIDLE, seconds}, Option{IPPROTO_TCP, TCP_KEEPINTVL, seconds},
        Option{IPPROTO_TCP, TCP_KEEPCNT, kProbes}, Option{SOL_SOCKET, SO_KEEPALIVE, kOn}}) {
    if (setsockopt(fd, option.level, option.name, &option.value, sizeof option.value) < 0) {
      return errno_status("setsockopt(SO_KEEPALIVE)");
    }
  }
  return {};
}

// TCP_USER_TIMEOUT would end connections with a peer that is alive and reads nothing, too.
bool is_silent(int fd, uint64_t silence_ns) {
  constexpr unsigned kAsked = 2;
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0) return false;
  const bool asked = info.tcpi_retransmits >= kAsked || info.tcpi_probes >= kAsked;
  // Data that acknowledges nothing new counts as no acknowledgement, however much comes.
  const uint64_t heard_ms = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  return asked && heard_ms * kNanosecondsPerMillisecond >= silence_ns;
}

std::string silence_text(uint64_t silence_ns) {
  return "its host has acknowledged nothing for " +
         std::to_string(silence_ns / kNanosecondsPerSecond) + " s (TUTTI_KEEPALIVE)";
}

size_t unacknowledged_bytes(int fd) {
  int bytes = 0;
  if (ioctl(fd, SIOCOUTQ, &bytes) < 0 || bytes < 0) return 0;
  return static_cast<size_t>(bytes);
}

}  // namespace tutti::transports::tcp
