#include "src/base/io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/descriptors.h"
#include "src/base/hung_up.h"
#include "src/base/wait_limit.h"

namespace tutti {
namespace {

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

Status late(const WaitLimit& wait_limit, const char* what) {
  return wait_limit.reason(std::string("the deadline passed while ") + what);
}

}  // namespace

int above_standard_streams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) [[likely]]
    return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error == EINVAL ? EMFILE : error;  // the limit lies below the number
  return moved;
}

void Fd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = above_standard_streams(fd);
}

std::string errno_text(int error) {
  std::string text = std::generic_category().message(error);
  if (error == EMFILE) {
    const DescriptorLimits limits = descriptor_limits();
    text += " (this process may have " + std::to_string(limits.soft) +
            ": raise ulimit -n; its hard limit is " + std::to_string(limits.hard) + ")";
  }
  if (error == EFBIG) {
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY) {
      text += " (files of this process may have " + std::to_string(limit.rlim_cur) +
              " bytes, shared memory too: raise ulimit -f)";
    }
  }
  if (error == ENFILE) text += " (of all processes of this host: raise sysctl fs.file-max)";
  return text;
}

Status errno_status(std::string_view what) {
  const int error = errno;
  return Status::system_error(std::string(what) + ": " + errno_text(error));
}

Status bind_status(std::string_view what) {
  const int error = errno;
  std::string text = std::string(what) + ": " + errno_text(error);
  if (error != EADDRINUSE) return Status::system_error(std::move(text));
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0, last = 0;
  file >> first >> last;
  text += ": all ports are taken that this host gives out, " + std::to_string(first) + " to " +
          std::to_string(last) +
          "; a communicator takes one for each of its ranks, two where it has several hosts: end "
          "some, or raise sysctl net.ipv4.ip_local_port_range";
  return Status::system_error(std::move(text));
}

int poll_timeout_ms(uint64_t deadline_ns) {
  constexpr uint64_t kLongestMs = 60'000;
  const uint64_t now_ns = monotonic_ns();
  if (now_ns >= deadline_ns) return 0;
  const uint64_t left_ms = (deadline_ns - now_ns - 1) / kNanosecondsPerMillisecond + 1;
  return static_cast<int>(std::min(left_ms, kLongestMs));
}

bool wait_ready(int fd, short events, const WaitLimit& wait_limit) {
  for (;;) {
    pollfd entries[] = {{fd, events, 0}, {wait_limit.cancellation_fd(), POLLIN, 0}};
    const uint64_t wake_ns =
        std::min({wait_limit.deadline_ns(), wait_limit.tells_at_ns(), wait_limit.asks_at_ns()});
    poll(entries, std::size(entries), poll_timeout_ms(wake_ns));
    if (entries[1].revents != 0) return false;
    if (entries[0].revents != 0) return true;
    wait_limit.tell_if_due();
    wait_limit.ask_if_due();
    // Input that came while the wait limit was asked counts.
    if (wait_limit.over()) return !wait_limit.cancelled() && poll(entries, 1, 0) > 0;
  }
}

Status receive_exactly(int fd, void* buffer, size_t bytes, const WaitLimit& wait_limit) {
  char* next = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t count = recv(fd, next, bytes, MSG_DONTWAIT);
    if (count > 0) {
      next += count;
      bytes -= static_cast<size_t>(count);
    } else if (count == 0) {
      return closed_by_peer();
    } else if (would_wait(errno)) {
      if (!wait_ready(fd, POLLIN, wait_limit))
        return late(wait_limit, "waiting for the peer's bytes");
    } else if (hung_up(errno)) {
      return closed_by_peer();
    } else if (errno != EINTR) {
      return errno_status("recv");
    }
  }
  return {};
}

Status send_all(int fd, const void* buffer, size_t bytes, const WaitLimit& wait_limit) {
  const char* next = static_cast<const char*>(buffer);
  while (bytes > 0) {
    const ssize_t count = send(fd, next, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      next += count;
      bytes -= static_cast<size_t>(count);
    } else if (would_wait(errno)) {
      if (!wait_ready(fd, POLLOUT, wait_limit))
        return late(wait_limit, "waiting for the peer to read");
    } else if (hung_up(errno)) {
      return closed_by_peer();
    } else if (errno != EINTR) {
      return errno_status("send");
    }
  }
  return {};
}

bool wait_ready(int fd, short events, uint64_t deadline_ns) {
  return wait_ready(fd, events, WaitLimit(deadline_ns));
}

Status receive_exactly(int fd, void* buffer, size_t bytes, uint64_t deadline_ns) {
  return receive_exactly(fd, buffer, bytes, WaitLimit(deadline_ns));
}

Status send_all(int fd, const void* buffer, size_t bytes, uint64_t deadline_ns) {
  return send_all(fd, buffer, bytes, WaitLimit(deadline_ns));
}

}  // namespace tutti
