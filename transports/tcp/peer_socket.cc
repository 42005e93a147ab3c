#include "transports/tcp/peer_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

Status PeerSocket::watch(const PollSet& set, uint64_t tag) {
  if (keepalive_ns_ != kNoDeadline) (void)keep_alive(fd_.get(), keepalive_ns_);
  return fd_.list(set, EPOLLIN | EPOLLRDHUP, tag);
}

namespace {

/// As recv() of a byte that stays where it is.
ssize_t look(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

}  // namespace

Status PeerSocket::check() const {
  if (look(fd_.get()) > 0) {
    return Status::remote_error("it said something where nothing is said");
  }
  return check_presence();
}

Status PeerSocket::check_presence() const {
  const ssize_t count = look(fd_.get());
  if (count == 0) return Status::remote_error("it has closed the connection, or its process ended");
  if (count > 0) return {};
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    return Status::remote_error("its process has ended: " + errno_text(errno));
  }
  if (keepalive_ns_ == kNoDeadline) return {};
  return is_silent(fd_.get(), keepalive_ns_) ? Status::remote_error(silence_text(keepalive_ns_))
                                             : Status();
}

int PeerSocket::hear() {
  uint8_t byte = 0;
  return recv(fd_.get(), &byte, 1, MSG_DONTWAIT) == 1 ? byte : -1;
}

void PeerSocket::say(uint8_t byte) {
  (void)!send(fd_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void PeerSocket::end() { shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace tutti::transports::tcp
