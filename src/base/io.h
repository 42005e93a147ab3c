// Descriptors and exact, bounded socket I/O: what every blocking step of a connection stands on.
//
// Owns:    an Fd closes its descriptor.
// Units:   nanoseconds of CLOCK_MONOTONIC for deadlines.
// Errors:  Status with errno's text; the caller adds who was meant.
// Threads: no state.
//
// A socket may be blocking or not: the calls here poll first and never sleep longer than the
// deadline. EINTR never shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/status.h"

namespace tutti {

/// The same open file under a number above those of the standard streams, which programs write to
/// also where they are closed: what they print must not get into a socket or memory of the
/// library's. -1, and errno says why, if there is no such number; then `fd` is closed.
int above_standard_streams(int fd);

/// A descriptor that closes itself, none of the standard streams'.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(above_standard_streams(fd)) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  /// Gives the descriptor away.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// The system's text for an error number; where descriptors ran out it also names the limit to
/// raise.
std::string errno_text(int error);

/// kSystemError "`what`: text of errno".
Status errno_status(std::string_view what);

/// The same of a bind() to a port of the system's choice: where none is left, what to do.
Status bind_status(std::string_view what);

/// The time until the deadline in milliseconds for poll(): rounded up, at most one minute.
int poll_timeout_ms(uint64_t deadline_ns);

/// Waits for poll() events (or an error condition of the descriptor); false when the deadline
/// passed.
bool wait_ready(int fd, short events, uint64_t deadline_ns);

/// Fills the buffer from a socket. kTimeout, kSystemError, or kRemoteError when the peer closed
/// first.
Status receive_exactly(int fd, void* buffer, size_t bytes, uint64_t deadline_ns);

/// Sends all of it without ever raising SIGPIPE.
Status send_all(int fd, const void* buffer, size_t bytes, uint64_t deadline_ns);

}  // namespace tutti
