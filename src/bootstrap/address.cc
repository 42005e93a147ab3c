#include "src/bootstrap/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::bootstrap {
namespace {

/// A socket address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  SocketAddress(const Address& address, uint16_t port) {
    if (address.family == 4) {
      auto* four = reinterpret_cast<sockaddr_in*>(&storage);
      four->sin_family = AF_INET;
      four->sin_port = htons(port);
      std::memcpy(&four->sin_addr, address.bytes.data(), sizeof four->sin_addr);
      bytes = sizeof *four;
    } else {
      auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
      six->sin6_family = AF_INET6;
      six->sin6_port = htons(port);
      std::memcpy(&six->sin6_addr, address.bytes.data(), sizeof six->sin6_addr);
      bytes = sizeof *six;
    }
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<KeptFd> open_socket(const SocketAddress& endpoint, int type = SOCK_STREAM) {
  KeptFd fd = KeptFd::open(
      [&] { return socket(endpoint.storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!fd.valid()) return errno_status("socket");
  return fd;
}

Result<uint16_t> bound_port(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) < 0) {
    return errno_status("getsockname");
  }
  const bool four = storage.ss_family == AF_INET;
  return ntohs(four ? reinterpret_cast<sockaddr_in*>(&storage)->sin_port
                    : reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
}

// Refused: nobody listens there.
Status connect_status(int error) {
  std::string text = "connect: " + errno_text(error);
  return error == ECONNREFUSED ? Status::remote_error(std::move(text))
                               : Status::system_error(std::move(text));
}

/// Of a connect() that is over.
Status connect_outcome(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0) return errno_status("getsockopt");
  return error == 0 ? Status() : connect_status(error);
}

}  // namespace

Result<Address> Address::parse(const std::string& numeric) {
  Address address;
  if (inet_pton(AF_INET, numeric.c_str(), address.bytes.data()) == 1) {
    address.family = 4;
  } else if (inet_pton(AF_INET6, numeric.c_str(), address.bytes.data()) == 1) {
    address.family = 6;
  } else {
    return Status::invalid_argument("'" + numeric + "' is not a numeric IPv4 or IPv6 address");
  }
  return address;
}

Result<Address> Address::from(const sockaddr* source) {
  Address address;
  if (source != nullptr && source->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(source);
    address.family = 4;
    std::memcpy(address.bytes.data(), &four->sin_addr, sizeof four->sin_addr);
  } else if (source != nullptr && source->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(source);
    address.family = 6;
    std::memcpy(address.bytes.data(), &six->sin6_addr, sizeof six->sin6_addr);
  } else {
    return Status::invalid_argument("this is no IPv4 or IPv6 address");
  }
  return address;
}

std::string Address::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  const int kind = family == 4 ? AF_INET : AF_INET6;
  return inet_ntop(kind, bytes.data(), text, sizeof text) == nullptr ? "?" : text;
}

std::string Address::text(uint16_t port) const {
  return (family == 6 ? "[" + text() + "]" : text()) + ":" + std::to_string(port);
}

bool Address::usable() const {
  if (family == 4) {
    const bool tail_zero = std::all_of(bytes.begin() + 4, bytes.end(), [](auto b) { return !b; });
    return tail_zero && bytes[0] != 0 && bytes[0] < 224;
  }
  if (family != 6) return false;
  in6_addr six{};
  std::memcpy(&six, bytes.data(), sizeof six);
  return !IN6_IS_ADDR_UNSPECIFIED(&six) && !IN6_IS_ADDR_MULTICAST(&six) &&
         !IN6_IS_ADDR_LINKLOCAL(&six) && !IN6_IS_ADDR_V4MAPPED(&six);
}

bool Address::loopback() const {
  if (family == 4) return bytes[0] == 127;
  in6_addr six{};
  std::memcpy(&six, bytes.data(), sizeof six);
  return family == 6 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool Address::link_local() const { return family == 4 && bytes[0] == 169 && bytes[1] == 254; }

Result<Listener> listen_on(const Address& address, uint16_t port) {
  const SocketAddress endpoint(address, port);
  Result<KeptFd> fd = open_socket(endpoint);
  if (!fd.ok()) return fd.status();
  const int socket = fd.value().get();
  const int on = 1;
  // A fixed port must be usable again at once after a job ended.
  if (setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) {
    return errno_status("setsockopt(SO_REUSEADDR)");
  }
  if (bind(socket, endpoint.get(), endpoint.bytes) < 0) {
    const std::string what = "bind to " + address.text(port);
    return port == 0 ? bind_status(what) : errno_status(what);
  }
  if (listen(socket, SOMAXCONN) < 0) return errno_status("listen on " + address.text(port));
  const Result<uint16_t> bound = bound_port(socket);
  if (!bound.ok()) return bound.status();
  return Listener{std::move(fd).value(), bound.value()};
}

// As far as the system lets one say so; its own limits are longer.
void keep_alive(int socket) {
  constexpr int kIdleSeconds = 30, kPauseSeconds = 10, kProbes = 3;
  constexpr unsigned kUnansweredMs = 60'000;
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kPauseSeconds, sizeof kPauseSeconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnansweredMs, sizeof kUnansweredMs);
}

Result<KeptFd> begin_dial(const Address& address, uint16_t port) {
  const SocketAddress endpoint(address, port);
  Result<KeptFd> fd = open_socket(endpoint);
  if (!fd.ok()) return Status(Code::kUnsupported, std::string(fd.status().message()));
  const int socket = fd.value().get();
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // slower without, not wrong
  keep_alive(socket);
  if (connect(socket, endpoint.get(), endpoint.bytes) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return connect_status(errno);
  return fd;
}

Result<bool> is_dialled(int socket) {
  pollfd entry{socket, POLLOUT, 0};
  if (poll(&entry, 1, 0) <= 0) return false;
  if (Status status = connect_outcome(socket); !status.ok()) return status;
  return true;
}

Result<KeptFd> dial(const Address& address, uint16_t port, const WaitLimit& wait_limit) {
  Result<KeptFd> fd = begin_dial(address, port);
  if (!fd.ok()) return fd;
  const int socket = fd.value().get();
  if (!wait_ready(socket, POLLOUT, wait_limit)) return wait_limit.reason("connect: no answer");
  if (Status status = connect_outcome(socket); !status.ok()) return status;
  return fd;
}

std::optional<Address> source_towards(const Address& address) {
  constexpr uint16_t kAnyPort = 9;  // a datagram socket only asks the routing table
  const SocketAddress endpoint(address, kAnyPort);
  const Result<KeptFd> fd = open_socket(endpoint, SOCK_DGRAM);
  if (!fd.ok() || connect(fd.value().get(), endpoint.get(), endpoint.bytes) < 0) return {};
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  if (getsockname(fd.value().get(), reinterpret_cast<sockaddr*>(&storage), &bytes) < 0) return {};
  const Result<Address> source = Address::from(reinterpret_cast<const sockaddr*>(&storage));
  return source.ok() ? std::optional(source.value()) : std::nullopt;
}

}  // namespace tutti::bootstrap
