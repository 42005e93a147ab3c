#include "transports/shm/liveness.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/clock.h"

namespace tutti::transports::shm {
namespace {

constexpr char kCloseNotice = 'B';

Fd open_process(pid_t process) {
  if (process <= 0) return Fd();  // not visible from this PID namespace
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

}  // namespace

Liveness::Liveness(KeptFd socket, pid_t process)
    : socket_(std::move(socket)), process_(open_process(process)) {
  gather();
}

Liveness::~Liveness() {
  // If it cannot be said, the peer sees an end of file without it; nothing better can be done.
  [[maybe_unused]] const ssize_t count =
      send(socket_.get(), &kCloseNotice, sizeof kCloseNotice, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// One descriptor for two: an epoll set is itself readable when one of its members is.
void Liveness::gather() {
  if (!process_.valid()) return;
  Fd gathered(epoll_create1(EPOLL_CLOEXEC));
  epoll_event hung_up{}, ended{};
  hung_up.events = EPOLLRDHUP;
  ended.events = EPOLLIN;
  if (!gathered.valid() || epoll_ctl(gathered.get(), EPOLL_CTL_ADD, socket_.get(), &hung_up) < 0 ||
      epoll_ctl(gathered.get(), EPOLL_CTL_ADD, process_.get(), &ended) < 0) {
    return;  // the socket alone notices all but peers with children
  }
  gathered_ = std::move(gathered);
}

Status Liveness::check() const {
  const Status dead = Status::remote_error("its process ended without closing the connection");
  if (dead_.load(std::memory_order_acquire)) return dead;
  const bool ended = process_ended();  // asked first: a close notice before the end is then seen
  const Ending ending = read_ending();
  if (ending == Ending::kEndOfFile || (ended && ending != Ending::kCloseNotice)) {
    dead_.store(true, std::memory_order_release);
    return dead;
  }
  if (ending == Ending::kNone) return {};
  const uint64_t now_ns = monotonic_ns();
  uint64_t first_ns = 0;
  if (close_notice_ns_.compare_exchange_strong(first_ns, now_ns)) return {};
  if (now_ns < first_ns + kGraceNs) return {};  // another thread's clock may have been read later
  return Status::remote_error("it closed its end while this rank still waits for it");
}

Status Liveness::kill() const {
  if (!process_.valid()) {
    return Status::unsupported("its process cannot be named from this PID namespace");
  }
  if (syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0) == 0) return {};
  if (errno == ESRCH) return {};  // it has ended meanwhile
  const Status status = errno_status("pidfd_send_signal");
  return Status::unsupported("its process may not be killed from here: " +
                             std::string(status.message()));
}

/// The close notice is only looked at, so it is found again by the next call.
Liveness::Ending Liveness::read_ending() const {
  char byte = 0;
  const ssize_t count = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count == 1 && byte == kCloseNotice) return Ending::kCloseNotice;
  if (count == 1 && byte == kMessage) return Ending::kNone;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return Ending::kNone;
  return Ending::kEndOfFile;
}

bool Liveness::process_ended() const {
  if (!process_.valid()) return false;
  pollfd entry{process_.get(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace tutti::transports::shm
