#include "tools/cli/metrics_port.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "src/base/clock.h"
#include "src/base/io.h"

namespace tutti::cli {
namespace {

constexpr uint64_t kPatienceNs = 1'000'000'000;  // of one caller
constexpr size_t kLongestRequest = 8 << 10;

// Reads until the empty line that ends a request. False: it is none, or takes too long.
bool take_request(int socket, uint64_t deadline_ns) {
  std::string request;
  std::array<char, 1024> buffer;
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kLongestRequest || !wait_ready(socket, POLLIN, deadline_ns)) return false;
    const ssize_t count = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count <= 0) return false;
    request.append(buffer.data(), static_cast<size_t>(count));
  }
  return request.starts_with("GET ") || request.starts_with("HEAD ");
}

}  // namespace

Result<MetricsPort> MetricsPort::open(const std::string& address, uint16_t port) {
  const Result<bootstrap::Address> where = bootstrap::Address::parse(address);
  if (!where.ok()) return where.status();
  Result<bootstrap::Listener> listener = bootstrap::listen_on(where.value(), port);
  if (!listener.ok()) return listener.status();
  return MetricsPort(std::move(listener).value());
}

void MetricsPort::answer(int socket, const std::string& text) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  if (!take_request(socket, deadline_ns)) return;
  const std::string reply =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n"
      "Content-Length: " +
      std::to_string(text.size()) + "\r\n\r\n" + text;
  // A caller that hangs up meanwhile has no need of it.
  (void)send_all(socket, reply.data(), reply.size(), deadline_ns);
}

bool MetricsPort::serve_one(const std::string& text, uint64_t until_ns) const {
  if (!wait_ready(listener_.fd.get(), POLLIN, until_ns)) return false;
  const Fd caller(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (caller.valid()) answer(caller.get(), text);
  return true;
}

}  // namespace tutti::cli
