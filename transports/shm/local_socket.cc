#include "transports/shm/local_socket.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "src/base/clock.h"
#include "src/base/hung_up.h"
#include "src/base/words.h"

namespace tutti::transports::shm {
namespace {

/// More descriptors than asked for are received too: only so they can be closed.
constexpr size_t kMaxDescriptors = 8;

union ControlBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(kMaxDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
};

struct LocalAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;

  explicit LocalAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    // The leading zero byte makes the name abstract.
    const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Result<KeptFd> open_socket() {
  KeptFd fd =
      KeptFd::open([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!fd.valid()) return errno_status("socket");
  return fd;
}

struct ReceivedAttachments {
  std::vector<Fd> descriptors;
  std::vector<pid_t> senders;
};

void take_attachments(msghdr& message, ReceivedAttachments& received) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      if (received.senders.empty() || received.senders.back() != sender.pid) {
        received.senders.push_back(sender.pid);
      }
    } else if (header->cmsg_type == SCM_RIGHTS) {
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        received.descriptors.emplace_back(fd);
      }
    }
  }
}

template <class Content>
void attach(cmsghdr* header, int type, const Content& content) {
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(sizeof content);
  std::memcpy(CMSG_DATA(header), &content, sizeof content);
}

}  // namespace

Result<LocalListener> listen_locally() {
  std::array<char, 16> random{};
  randombytes_buf(random.data(), random.size());
  const std::string name = "tutti-" + to_hex({random.data(), random.size()});
  const LocalAddress address(name);
  Result<KeptFd> fd = open_socket();
  if (!fd.ok()) return fd.status();
  if (bind(fd.value().get(), address.get(), address.bytes) < 0) {
    return errno_status("bind of an abstract unix socket");
  }
  if (listen(fd.value().get(), SOMAXCONN) < 0) return errno_status("listen");
  return LocalListener{std::move(fd).value(), name};
}

Result<KeptFd> dial_locally(const std::string& name, const WaitLimit& wait_limit) {
  constexpr uint64_t kPauseNs = 1'000'000;
  const LocalAddress address(name);
  Result<KeptFd> fd = open_socket();
  if (!fd.ok()) return fd;
  while (connect(fd.value().get(), address.get(), address.bytes) < 0) {
    // EAGAIN: the queue of the listener is full, and there is nothing to poll for.
    if (errno == ECONNREFUSED) return Status::remote_error("the peer listens no more");
    if (errno != EAGAIN && errno != EINTR) return errno_status("connect");
    if (wait_limit.over()) return wait_limit.reason("the peer's queue of connections stayed full");
    wait_limit.pause(kPauseNs);
  }
  return fd;
}

Status check_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0) {
    return errno_status("getsockopt(SO_PEERCRED)");
  }
  if (peer.uid == geteuid()) return {};
  return Status::unsupported("the other end belongs to user " + std::to_string(peer.uid) +
                             ", this process to user " + std::to_string(geteuid()));
}

namespace {

// The kernel refuses credentials of a user that has no number in the process's user namespace.
Status error_of_send() {
  if (hung_up(errno)) return closed_by_peer();
  const bool is_unmapped = errno == EINVAL;
  Status status = errno_status("sendmsg");
  if (!is_unmapped) return status;
  return Status::system_error(std::string(status.message()) +
                              " (this process's user is not mapped in its user namespace: map it, "
                              "as `unshare --map-root-user` and newuidmap do)");
}

}  // namespace

Status send_attached(int socket, std::span<const uint8_t> bytes, int descriptor) {
  iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof descriptor) + CMSG_SPACE(sizeof(ucred));
  cmsghdr* const first = CMSG_FIRSTHDR(&message);
  attach(first, SCM_RIGHTS, descriptor);
  // Not SO_PEERCRED: that names the process that made the listener, which may have forked since.
  attach(CMSG_NXTHDR(&message, first), SCM_CREDENTIALS, ucred{getpid(), geteuid(), getegid()});
  ssize_t count = 0;
  do {
    count = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return error_of_send();
  if (static_cast<size_t>(count) != bytes.size()) return Status::system_error("sendmsg: cut short");
  return {};
}

Result<Attachment> receive_attached(int socket, std::span<uint8_t> bytes,
                                    const WaitLimit& wait_limit) {
  const int on = 1;
  if (setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0) {
    return errno_status("setsockopt(SO_PASSCRED)");
  }
  ReceivedAttachments received;
  while (!bytes.empty()) {
    iovec piece{bytes.data(), bytes.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count > 0) {
      take_attachments(message, received);
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count == 0 || hung_up(errno)) {
      return closed_by_peer();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(socket, POLLIN, wait_limit)) {
        return wait_limit.reason("the deadline passed while waiting for the peer's memory");
      }
    } else if (errno != EINTR) {
      return errno_status("recvmsg");
    }
  }
  if (received.descriptors.size() != 1 || received.senders.size() != 1) {
    return Status::remote_error("the peer sent " + std::to_string(received.descriptors.size()) +
                                " descriptors instead of one (is the limit of open files reached "
                                "here? see ulimit -n)");
  }
  return Attachment{std::move(received.descriptors.front()), received.senders.front()};
}

}  // namespace tutti::transports::shm
