// Tells whether the process at the other end of a link lives, left in good order, or died.
//
// Death closes the connected socket. But a child that the peer made without fork()'s handlers keeps
// an inherited copy open, so the process itself is watched too (pidfd), where the kernel lets us. A
// peer that closes its link sends a close notice first, so its end of file is no death then. Other
// messages are not read here, and wake no thread.
//
// Owns:    the connected socket, a pidfd, and the descriptor that gathers both.
// Threads: check() from any.
// Errors:  kRemoteError, sticky, from check().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::transports::shm {

class Liveness {
 public:
  /// A rank that still waits for a peer this long after its close notice waits in vain.
  static constexpr uint64_t kGraceNs = 1'000'000'000;

  Liveness(KeptFd socket, pid_t process);
  /// Sends the close notice.
  ~Liveness();

  /// Readable as soon as check() has something to look at.
  int fd() const { return gathered_.valid() ? gathered_.get() : socket_.get(); }
  /// For pidfd_getfd(); -1 where the kernel has none.
  int process_fd() const { return process_.get(); }
  /// For messages that begin with kMessage. While one lies there unread, a close notice behind it
  /// is not seen.
  static constexpr uint8_t kMessage = 'D';
  int socket() const { return socket_.get(); }

  /// OK, or why the peer will not answer any more. One or two system calls.
  Status check() const;
  /// SIGKILL, by the pidfd: never to a process that has got its number.
  Status kill() const;

 private:
  enum class Ending { kNone, kCloseNotice, kEndOfFile };

  Ending read_ending() const;
  bool process_ended() const;
  void gather();

  const KeptFd socket_;
  Fd process_;
  Fd gathered_;
  mutable std::atomic<bool> dead_{false};
  mutable std::atomic<uint64_t> close_notice_ns_{0};  // when it was first seen; 0: never
};

}  // namespace tutti::transports::shm
