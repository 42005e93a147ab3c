#include "tools/cli/doctor_reach.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>

#include "src/base/clock.h"
#include "src/base/io.h"

namespace tutti::cli {
namespace {

using Verdict = DoctorFinding::Verdict;

constexpr size_t kPorts = 8;

/// A connection that is being tried.
struct TriedPort {
  uint16_t port = 0;
  Fd fd;
  int error = EINPROGRESS;  // 0: connected
};

TriedPort begin(const addrinfo& address, uint16_t port) {
  TriedPort tried;
  tried.port = port;
  tried.fd = Fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected =
      tried.fd.valid() && connect(tried.fd.get(), address.ai_addr, address.ai_addrlen) == 0;
  tried.error = connected ? 0 : errno;
  return tried;
}

void await(std::vector<TriedPort>& tried, uint64_t deadline_ns) {
  for (;;) {
    std::vector<pollfd> polls;
    for (const TriedPort& one : tried) {
      polls.push_back({one.error == EINPROGRESS ? one.fd.get() : -1, POLLOUT, 0});
    }
    const bool waits =
        std::any_of(polls.begin(), polls.end(), [](auto& one) { return one.fd >= 0; });
    if (!waits || monotonic_ns() >= deadline_ns) return;
    ::poll(polls.data(), polls.size(), poll_timeout_ms(deadline_ns));
    for (size_t i = 0; i < tried.size(); ++i) {
      if (polls[i].revents == 0) continue;
      socklen_t bytes = sizeof tried[i].error;
      getsockopt(tried[i].fd.get(), SOL_SOCKET, SO_ERROR, &tried[i].error, &bytes);
    }
  }
}

std::string list(const std::vector<const TriedPort*>& ports) {
  std::string text;
  for (const TriedPort* one : ports) text += (text.empty() ? "" : ", ") + std::to_string(one->port);
  return text;
}

DoctorFinding judge(const std::string& subject, const std::vector<TriedPort>& tried) {
  std::vector<const TriedPort*> silent, forbidden;
  for (const TriedPort& one : tried) {
    if (one.error == 0 || one.error == ECONNREFUSED) continue;
    (one.error == EINPROGRESS ? silent : forbidden).push_back(&one);
  }
  const std::string all = std::to_string(tried.size()) + " ports that ranks may get";
  if (silent.empty() && forbidden.empty()) {
    return {Verdict::kRight, subject, "answers at all of " + all, ""};
  }
  std::string found;
  if (!silent.empty()) found = "no answer at " + list(silent) + " of " + all;
  if (!forbidden.empty()) {
    found += std::string(found.empty() ? "" : "; ") + "at " + list(forbidden) + ": " +
             errno_text(forbidden.front()->error);
  }
  return {Verdict::kWrong, subject, found,
          "let TCP pass between the hosts of a job at all ports of net.ipv4.ip_local_port_range "
          "(nft list ruleset, security groups), or choose a network that does by "
          "TUTTI_SOCKET_IFNAME"};
}

}  // namespace

std::vector<uint16_t> ports_of_ranks(const std::string& proc) {
  uint32_t first = 32768, last = 60999;  // the kernel's default
  std::ifstream(proc + "/sys/net/ipv4/ip_local_port_range") >> first >> last;
  std::vector<uint16_t> ports;
  if (first == 0 || last < first || last > UINT16_MAX) return ports;
  for (size_t i = 0; i < kPorts; ++i) {
    ports.push_back(static_cast<uint16_t>(first + (last - first) * i / (kPorts - 1)));
  }
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

DoctorFinding look_at_way(const std::string& host, const std::vector<uint16_t>& ports,
                          uint64_t patience_ns) {
  const std::string subject = "the way to " + host;
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  std::vector<TriedPort> tried;
  for (const uint16_t port : ports) {
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wish, &found);
    if (error != 0) {
      return {Verdict::kWrong, subject, std::string("it has no address: ") + gai_strerror(error),
              "/etc/hosts, or the name service"};
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
    tried.push_back(begin(*found, port));
  }
  await(tried, monotonic_ns() + patience_ns);
  return judge(subject, tried);
}

}  // namespace tutti::cli
