#include "transports/flows/opening.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/little.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::flows {
namespace {

constexpr uint8_t kMagic[4] = {'T', 'U', 'F', '1'};
constexpr size_t kSecretBytes = 16, kHelloBytes = 8 + kSecretBytes, kCallBytes = kSecretBytes + 1;
constexpr size_t kMostCallers = 64;  // that have not said their secret
constexpr int kNapMs = 20;

// A socket carries about so much in a round trip, and networks that nobody describes so much.
constexpr double kFlowBytes = 4 << 20, kUnknownBytesPerNs = 1.25;

struct FlowsHello {
  uint32_t wish = 0;
  uint16_t port = 0;
  std::array<uint8_t, kSecretBytes> secret{};
};

Status nonsense(const char* what) {
  return Status::remote_error(std::string("the peer's description of its sockets is wrong: ") +
                              what);
}

Status send_hello(int socket, const FlowsHello& hello, const WaitLimit& wait_limit) {
  std::array<uint8_t, kHelloBytes> bytes{};
  std::memcpy(bytes.data(), kMagic, sizeof kMagic);
  bytes[4] = static_cast<uint8_t>(hello.wish);
  put_little(&bytes[6], hello.port, 2);
  std::memcpy(&bytes[8], hello.secret.data(), kSecretBytes);
  return send_all(socket, bytes.data(), bytes.size(), wait_limit);
}

Result<FlowsHello> receive_hello(int socket, const WaitLimit& wait_limit) {
  std::array<uint8_t, kHelloBytes> bytes{};
  Status status = receive_exactly(socket, bytes.data(), bytes.size(), wait_limit);
  if (!status.ok()) return status;
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return nonsense("another version of Tutti?");
  }
  FlowsHello hello;
  hello.wish = bytes[4];
  hello.port = static_cast<uint16_t>(get_little(&bytes[6], 2));
  std::memcpy(hello.secret.data(), &bytes[8], kSecretBytes);
  if (hello.wish < 1 || hello.wish > kMostFlows) return nonsense("a number that cannot be");
  return hello;
}

Result<tcp::IpEndpoint> peer_of(int socket, uint16_t port) {
  tcp::IpEndpoint peer;
  peer.bytes = sizeof peer.address;
  auto* const address = reinterpret_cast<sockaddr*>(&peer.address);
  if (getpeername(socket, address, &peer.bytes) < 0) return errno_status("getpeername");
  return tcp::parse_endpoint(peer.host(), port);
}

Result<std::vector<KeptFd>> call(int proved, const FlowsHello& theirs, uint32_t count,
                                 const WaitLimit& wait_limit) {
  const auto place = peer_of(proved, theirs.port);
  if (!place.ok()) return place.status();
  std::vector<KeptFd> sockets;
  for (uint32_t i = 0; i < count; ++i) {
    Result<KeptFd> socket = tcp::dial(place.value());
    if (!socket.ok()) return socket.status();
    sockets.push_back(std::move(socket).value());
  }
  for (uint32_t i = 0; i < count; ++i) {
    std::array<uint8_t, kCallBytes> bytes{};
    std::memcpy(bytes.data(), theirs.secret.data(), kSecretBytes);
    bytes[kSecretBytes] = static_cast<uint8_t>(i);
    Status status = send_all(sockets[i].get(), bytes.data(), bytes.size(), wait_limit);
    if (!status.ok()) return status;
  }
  return sockets;
}

/// Hears callers of a listener until all sockets are there.
class Listening {
 public:
  Listening(KeptFd listener, const FlowsHello& mine, uint32_t count)
      : listener_(std::move(listener)), mine_(mine), sockets_(count) {}

  bool is_done() const { return missing() == 0; }
  std::vector<KeptFd> take() { return std::move(sockets_); }

  void step() {
    std::vector<pollfd> polls = {{listener_.get(), POLLIN, 0}};
    for (const FlowCaller& caller : callers_) polls.push_back({caller.fd.get(), POLLIN, 0});
    ::poll(polls.data(), polls.size(), kNapMs);
    std::erase_if(callers_, [this](FlowCaller& caller) { return hear(caller); });
    KeptFd fd = KeptFd::open(
        [&] { return accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (!fd.valid()) return;
    if (callers_.size() == kMostCallers) callers_.pop_front();
    callers_.push_back({std::move(fd), {}, 0});
  }

 private:
  struct FlowCaller {
    KeptFd fd;
    std::array<uint8_t, kCallBytes> bytes{};
    size_t have = 0;
  };

  size_t missing() const {
    return static_cast<size_t>(std::count_if(sockets_.begin(), sockets_.end(),
                                             [](const KeptFd& fd) { return !fd.valid(); }));
  }

  /// True when this caller is done with, one way or the other.
  bool hear(FlowCaller& caller) {
    const ssize_t count =
        recv(caller.fd.get(), caller.bytes.data() + caller.have, kCallBytes - caller.have, 0);
    if (count < 0) return errno != EAGAIN && errno != EINTR;
    if (count == 0) return true;
    caller.have += static_cast<size_t>(count);
    if (caller.have < kCallBytes) return false;
    const uint8_t number = caller.bytes[kSecretBytes];
    const bool ours = sodium_memcmp(caller.bytes.data(), mine_.secret.data(), kSecretBytes) == 0;
    if (ours && number < sockets_.size()) sockets_[number] = std::move(caller.fd);
    return true;
  }

  const KeptFd listener_;
  const FlowsHello mine_;
  std::vector<KeptFd> sockets_;
  std::list<FlowCaller> callers_;
};

Result<KeptFd> listen_beside(int proved, FlowsHello& mine) {
  const auto own = tcp::local_endpoint(proved);
  if (!own.ok()) return own.status();
  const auto place = tcp::parse_endpoint(own.value().host(), 0);
  if (!place.ok()) return place.status();
  Result<KeptFd> listener = tcp::listen_on(place.value());
  if (!listener.ok()) return listener;
  const auto bound = tcp::local_endpoint(listener.value().get());
  if (!bound.ok()) return bound.status();
  mine.port = bound.value().port();
  randombytes_buf(mine.secret.data(), kSecretBytes);
  return listener;
}

}  // namespace

// A rate that was seen is that of the sockets there were: it only says that there is more.
uint32_t flows_for(const transport::PathRates& path, uint64_t measured_ns) {
  const double round_trip_ns =
      path.latency_ns > 0 ? 2 * path.latency_ns : static_cast<double>(measured_ns);
  const double rate = path.bytes_per_ns > 0 ? path.bytes_per_ns
                                            : std::max(path.seen_bytes_per_ns, kUnknownBytesPerNs);
  const double flows = std::clamp<double>(round_trip_ns * rate / kFlowBytes, 1, kMostFlows);
  return static_cast<uint32_t>(flows);
}

Result<std::vector<KeptFd>> open_flows(int proved, uint32_t wish, bool listens,
                                       const WaitLimit& wait_limit) {
  FlowsHello mine;
  mine.wish = wish;
  KeptFd listener;
  if (listens) {
    Result<KeptFd> made = listen_beside(proved, mine);
    if (!made.ok()) return made.status();
    listener = std::move(made).value();
  }
  if (Status status = send_hello(proved, mine, wait_limit); !status.ok()) return status;
  const Result<FlowsHello> theirs = receive_hello(proved, wait_limit);
  if (!theirs.ok()) return theirs.status();
  const uint32_t count = std::max(wish, theirs.value().wish);
  if (!listens) return call(proved, theirs.value(), count, wait_limit);
  Listening listening(std::move(listener), mine, count);
  while (!listening.is_done()) {
    if (wait_limit.over()) return wait_limit.reason("the peer's sockets did not come in time");
    listening.step();
  }
  return listening.take();
}

}  // namespace tutti::transports::flows
