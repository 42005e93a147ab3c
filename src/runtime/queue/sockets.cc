#include "src/runtime/queue/sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "src/runtime/refuse.h"

namespace tutti::runtime::queue {
namespace {

constexpr size_t kLeastKey = 16;
constexpr char kPurpose[] = "tutti transfer queue 1";

[[noreturn]] void lost(const std::string& address, std::string_view what) {
  throw Error(ErrorKind::kCommunication, words("transfer queue at ", address, ": ", what),
              tuttiRemoteError);
}
std::string system_words(int error) { return std::generic_category().message(error); }

/// A parsed address: of a unix socket, or a host and a port.
struct ParsedAddress {
  std::string path, host, port;
};

ParsedAddress parse(const std::string& address, std::string_view key) {
  const std::string_view unix_form = "unix:", tcp_form = "tcp:";
  ParsedAddress place;
  if (address.starts_with(unix_form)) {
    place.path = address.substr(unix_form.size());
    require(!place.path.empty() && place.path.size() < sizeof(sockaddr_un{}.sun_path),
            "the address '", address, "' has a path of ", place.path.size(),
            " bytes; give 1 to 107");
    return place;
  }
  const size_t colon = address.rfind(':');
  require(address.starts_with(tcp_form) && colon > tcp_form.size(), "the address '", address,
          "' is neither unix:/path nor tcp:host:port");
  place.host = address.substr(tcp_form.size(), colon - tcp_form.size());
  place.port = address.substr(colon + 1);
  require(!place.port.empty() && place.port.find_first_not_of("0123456789") == std::string::npos,
          "the address '", address, "' has no number for its port");
  require(key.size() >= kLeastKey, "the address '", address, "' needs a key of at least ",
          kLeastKey, " bytes, which all processes of the queue hold; it has ", key.size());
  return place;
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
Addresses look_up(const ParsedAddress& place, const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  if (result != 0) lost(address, words("its host is not known: ", gai_strerror(result)));
  return {found, &freeaddrinfo};
}

bool is_same_user(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

bool listens(const sockaddr_un& address) {
  const Socket probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

QueueListener listen_unix(const ParsedAddress& place, const std::string& address) {
  const sockaddr_un name = unix_address(place.path);
  QueueListener listener{Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                         address, place.path};
  require(!listens(name), "something listens at ", address, " already; choose another path");
  unlink(place.path.c_str());  // what a process has left that was killed
  const bool bound =
      bind(listener.socket.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  if (!bound || listen(listener.socket.fd(), SOMAXCONN) != 0) {
    lost(address, words("cannot listen: ", system_words(errno)));
  }
  return listener;
}

std::string port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes);
  const uint16_t port = bound.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return std::to_string(ntohs(port));
}

void prepare_tcp(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

[[noreturn]] void failed(const std::string& address, std::string_view call, int error) {
  if (error != EPIPE && error != ECONNRESET) {
    lost(address, words(call, " failed: ", system_words(error)));
  }
  lost(address, "it has hung up: its process has ended, or it holds another key");
}

/// Milliseconds until the deadline, rounded up, for poll().
int left(Deadline deadline) {
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(rest, 0, 1'000'000));
}

void wait_for(const Socket& socket, int16_t events, const std::string& address, Deadline deadline) {
  while (true) {
    pollfd entry{socket.fd(), events, 0};
    const int ready = poll(&entry, 1, left(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lost(address, system_words(errno));
    if (Clock::now() >= deadline) {
      lost(address, "it has not answered in time; see whether its process is alive");
    }
  }
}

void send_all(const Socket& socket, std::string_view bytes, const std::string& address,
              Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      wait_for(socket, POLLOUT, address, deadline);
    } else if (errno != EINTR) {
      failed(address, "send", errno);
    }
  }
}

void recv_all(const Socket& socket, void* to, size_t bytes, const std::string& address,
              Deadline deadline) {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = recv(socket.fd(), next, bytes, MSG_DONTWAIT);
    if (got > 0) {
      next += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      failed(address, "recv", ECONNRESET);
    } else if (errno == EAGAIN) {
      wait_for(socket, POLLIN, address, deadline);
    } else if (errno != EINTR) {
      failed(address, "recv", errno);
    }
  }
}

/// One try; without descriptor where nobody listens (yet).
Socket try_connect(const ParsedAddress& place, const std::string& address) {
  if (!place.path.empty()) {
    const sockaddr_un name = unix_address(place.path);
    Socket made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (made.fd() < 0) lost(address, system_words(errno));
    if (connect(made.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return {};
    if (!is_same_user(made.fd())) lost(address, "another user listens there");
    return made;
  }
  const Addresses found = look_up(place, address);
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    Socket made(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (made.fd() < 0 || connect(made.fd(), entry->ai_addr, entry->ai_addrlen) != 0) continue;
    prepare_tcp(made.fd());
    return made;
  }
  return {};
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

QueueListener listen_at(const std::string& address, std::string_view key) {
  const ParsedAddress place = parse(address, key);
  if (!place.path.empty()) return listen_unix(place, address);
  const Addresses found = look_up(place, address);
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    Socket made(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made.fd(), entry->ai_addr, entry->ai_addrlen) != 0) continue;
    if (listen(made.fd(), SOMAXCONN) != 0) continue;
    std::string bound = "tcp:" + place.host + ":" + port_of(made.fd());
    return {std::move(made), std::move(bound), ""};
  }
  lost(address, words("cannot listen: ", system_words(errno)));
}

Socket accept_from(const QueueListener& listener) {
  Socket caller(accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (caller.fd() < 0) return {};
  if (!listener.path.empty() && !is_same_user(caller.fd())) return {};
  if (listener.path.empty()) prepare_tcp(caller.fd());
  return caller;
}

Socket connect_to(const std::string& address, std::string_view key, Deadline deadline) {
  const ParsedAddress place = parse(address, key);
  constexpr std::chrono::milliseconds kPause(20);
  while (true) {
    Socket made = try_connect(place, address);
    if (made.fd() >= 0) return made;
    if (Clock::now() + kPause > deadline) {
      lost(address, "nobody listens there; see whether its process is alive");
    }
    std::this_thread::sleep_for(kPause);
  }
}

void send_frame(const Socket& socket, std::string_view head, std::string_view body,
                const std::string& address, Deadline deadline) {
  const uint64_t bytes = head.size() + body.size();
  require(bytes <= kMostFrame, "a message of the queue has ", bytes,
          " bytes; at most 2^34 go at once");
  std::string first(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  first.append(head);
  send_all(socket, first, address, deadline);
  send_all(socket, body, address, deadline);
}

std::string recv_frame(const Socket& socket, const std::string& address, Deadline deadline) {
  uint64_t bytes = 0;
  recv_all(socket, &bytes, sizeof bytes, address, deadline);
  if (bytes > kMostFrame) lost(address, "it sent a message that is too long");
  std::string frame(bytes, '\0');
  recv_all(socket, frame.data(), frame.size(), address, deadline);
  return frame;
}

Nonce fresh_nonce() {
  Nonce nonce;
  if (sodium_init() < 0) throw Error(ErrorKind::kCommunication, "libsodium does not start");
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Proof proof_of(std::string_view key, bool of_server, const Nonce& server, const Nonce& client) {
  std::array<unsigned char, 32> secret{};
  if (!key.empty()) {
    crypto_generichash(secret.data(), secret.size(),
                       reinterpret_cast<const unsigned char*>(key.data()), key.size(), nullptr, 0);
  }
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret.data(), secret.size(), kProof);
  const auto purpose = reinterpret_cast<const unsigned char*>(kPurpose);
  const unsigned char end = of_server ? 1 : 0;
  crypto_generichash_update(&state, purpose, sizeof kPurpose);
  crypto_generichash_update(&state, &end, 1);
  crypto_generichash_update(&state, server.data(), server.size());
  crypto_generichash_update(&state, client.data(), client.size());
  Proof proof;
  crypto_generichash_final(&state, proof.data(), proof.size());
  return proof;
}

bool equal(const Proof& a, const unsigned char* b) {
  return sodium_memcmp(a.data(), b, a.size()) == 0;
}

void prove(const Socket& socket, std::string_view key, const std::string& address,
           Deadline deadline) {
  Nonce server;
  recv_all(socket, server.data(), server.size(), address, deadline);
  const Nonce client = fresh_nonce();
  const Proof own = proof_of(key, false, server, client);
  std::string hello(client.begin(), client.end());
  hello.append(own.begin(), own.end());
  send_all(socket, hello, address, deadline);
  Proof theirs;
  recv_all(socket, theirs.data(), theirs.size(), address, deadline);
  if (!equal(proof_of(key, true, server, client), theirs.data())) {
    lost(address, "it does not hold the key of this client");
  }
}

}  // namespace tutti::runtime::queue
