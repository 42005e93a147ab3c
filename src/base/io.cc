#include "src/base/io.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/clock.h"

namespace tutti {
namespace {

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

bool hung_up(int error) { return error == ECONNRESET || error == EPIPE; }

Status closed_by_peer() { return Status::remote_error("the peer closed the connection"); }

Status late(const char* what) {
  return Status::timeout(std::string("the deadline passed while ") + what);
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

std::string errno_text(int error) { return std::generic_category().message(error); }

Status errno_status(std::string_view what) {
  const int error = errno;
  return Status::system_error(std::string(what) + ": " + errno_text(error));
}

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

Status receive_exactly(int fd, void* buffer, size_t bytes, uint64_t deadline_ns) {
  char* next = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t count = recv(fd, next, bytes, MSG_DONTWAIT);
    if (count > 0) {
      next += count;
      bytes -= static_cast<size_t>(count);
    } else if (count == 0) {
      return closed_by_peer();
    } else if (would_wait(errno)) {
      if (!wait_ready(fd, POLLIN, deadline_ns)) return late("waiting for the peer's bytes");
    } else if (hung_up(errno)) {
      return closed_by_peer();
    } else if (errno != EINTR) {
      return errno_status("recv");
    }
  }
  return {};
}

Status send_all(int fd, const void* buffer, size_t bytes, uint64_t deadline_ns) {
  const char* next = static_cast<const char*>(buffer);
  while (bytes > 0) {
    const ssize_t count = send(fd, next, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      next += count;
      bytes -= static_cast<size_t>(count);
    } else if (would_wait(errno)) {
      if (!wait_ready(fd, POLLOUT, deadline_ns)) return late("waiting for the peer to read");
    } else if (hung_up(errno)) {
      return closed_by_peer();
    } else if (errno != EINTR) {
      return errno_status("send");
    }
  }
  return {};
}

}  // namespace tutti
