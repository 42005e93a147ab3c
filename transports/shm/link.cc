#include "transports/shm/link.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "src/base/little.h"
#include "transports/shm/given.h"
#include "transports/shm/local_socket.h"

namespace tutti::transports::shm {
namespace {

constexpr std::string_view kMagic = "TUTTISHM";
constexpr size_t kProbeBytes = 16;

/// Travels with the descriptor of the arena: {magic 8, arena bytes 8, process 8, probe address 8,
/// probe 16}. The process id is the one that the sender sees. The probe is random: whoever reads it
/// at that address reads the right process's memory.
constexpr size_t kArenaBytesAt = 8, kProcessAt = 16, kProbeAddressAt = 24, kProbeAt = 32;
using Introduction = std::array<uint8_t, kProbeAt + kProbeBytes>;
using Probe = std::array<uint8_t, kProbeBytes>;

Introduction introduce_self(const transport::Arena& arena, const Probe& probe) {
  Introduction bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put_little(&bytes[kArenaBytesAt], arena.bytes(), 8);
  put_little(&bytes[kProcessAt], static_cast<uint64_t>(getpid()), 8);
  put_little(&bytes[kProbeAddressAt], reinterpret_cast<uint64_t>(probe.data()), 8);
  std::copy(probe.begin(), probe.end(), &bytes[kProbeAt]);
  return bytes;
}

enum class CopyWay { kRead, kWrite };

Status error_of_copy(CopyWay way) {
  const char* call = way == CopyWay::kRead ? "process_vm_readv" : "process_vm_writev";
  if (errno == ESRCH) {
    return Status::remote_error(
        "its process has ended, or its main thread, without which nobody reaches its memory");
  }
  if (errno == EFAULT) {
    return Status::invalid_usage(std::string(call) +
                                 ": no such memory there (it was freed, or may not be accessed "
                                 "so), or the local buffer is not accessible");
  }
  if (errno == EPERM) {
    return Status::unsupported(std::string(call) +
                               ": permitted when the ranks connected, and no more");
  }
  return errno_status(call);
}

/// By one system call or few, until all is there.
Status copy_across(CopyWay way, pid_t process, std::byte* here, uint64_t there, size_t bytes) {
  const auto call = way == CopyWay::kRead ? process_vm_readv : process_vm_writev;
  while (bytes > 0) {
    const iovec local{here, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t count = call(process, &local, 1, &remote, 1, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error_of_copy(way);
    if (count == 0) return Status::system_error("a single copy moved nothing");
    here += count;
    there += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return {};
}

/// Writes what is there anyway, and only where the peer is known to be the right process.
bool can_copy(pid_t process, const Introduction& theirs) {
  if (process <= 0) return false;
  Probe seen{};
  auto* const here = reinterpret_cast<std::byte*>(seen.data());
  const uint64_t there = get_little(&theirs[kProbeAddressAt], 8);
  return copy_across(CopyWay::kRead, process, here, there, seen.size()).ok() &&
         std::memcmp(seen.data(), &theirs[kProbeAt], seen.size()) == 0 &&
         copy_across(CopyWay::kWrite, process, here, there, seen.size()).ok();
}

/// For good, since a peer may write it back when this side has long given up the introduction.
const Probe& own_probe() {
  // tidy: allow mutable (made once, and without a lock that the child of a fork could find held)
  static constinit std::atomic<const Probe*> known{nullptr};
  const Probe* probe = known.load(std::memory_order_acquire);
  if (probe != nullptr) return *probe;
  auto random = std::make_unique<Probe>();
  randombytes_buf(random->data(), random->size());
  // Unless another thread was faster.
  if (known.compare_exchange_strong(probe, random.get(), std::memory_order_acq_rel)) {
    probe = random.release();
  }
  return *probe;
}

/// Both sides must decide alike, so a capability counts only if both have it.
Result<bool> agree(int socket, bool mine, const WaitLimit& wait_limit) {
  const uint8_t ours = mine ? 1 : 0;
  uint8_t theirs = 0;
  if (Status status = send_all(socket, &ours, 1, wait_limit); !status.ok()) return status;
  if (Status status = receive_exactly(socket, &theirs, 1, wait_limit); !status.ok()) {
    return status;
  }
  if (theirs > 1) return Status::remote_error("the peer answered with garbage");
  return ours == 1 && theirs == 1;
}

}  // namespace

std::string PeerProcess::text() const {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process) + " on host " +
         host_id + ")";
}

Result<std::unique_ptr<ShmLink>> ShmLink::introduce(KeptFd socket, const PeerProcess& peer,
                                                    const ShmMemory& memory,
                                                    const WaitLimit& wait_limit) {
  const Introduction ours = introduce_self(memory.arena, own_probe());
  if (Status status = send_attached(socket.get(), ours, memory.arena.fd()); !status.ok()) {
    return status;
  }
  Introduction theirs{};
  Result<Attachment> attached = receive_attached(socket.get(), theirs, wait_limit);
  if (!attached.ok()) return attached.status();
  Attachment& peer_owns = attached.value();
  if (std::memcmp(theirs.data(), kMagic.data(), kMagic.size()) != 0) {
    return Status::remote_error("the peer introduced itself with garbage");
  }
  Result<transport::Arena> arena = transport::Arena::adopt(peer_owns.descriptor.release(),
                                                           get_little(&theirs[kArenaBytesAt], 8));
  if (!arena.ok()) return arena.status();
  const Result<bool> single_copy =
      agree(socket.get(), can_copy(peer_owns.process, theirs), wait_limit);
  if (!single_copy.ok()) return single_copy.status();
  PeerProcess known = peer;
  known.visible = peer_owns.process;
  known.process = static_cast<int64_t>(get_little(&theirs[kProcessAt], 8));
  return std::unique_ptr<ShmLink>(new ShmLink(std::move(socket), known, std::move(arena).value(),
                                              memory.imports, single_copy.value()));
}

ShmLink::ShmLink(KeptFd socket, const PeerProcess& peer, transport::Arena arena,
                 std::shared_ptr<transport::ImportCache> imports, bool single_copy)
    : peer_(peer),
      liveness_(std::move(socket), peer.visible),
      arena_(std::move(arena)),
      imports_(std::move(imports)) {
  capabilities_.mapped = true;
  capabilities_.single_copy = single_copy;
}

Status ShmLink::status() const {
  const Status status = liveness_.check();
  if (status.ok()) return {};
  return Status(status.code(), peer_.text() + ": " + std::string(status.message()));
}

Result<transport::Buffer> ShmLink::import(std::string_view handle) {
  const Result<transport::MemoryHandle> memory = transport::parse_memory(handle);
  if (!memory.ok()) return memory.status();
  const transport::MemoryHandle& named = memory.value();
  if (named.process != peer_.process) {
    return Status::invalid_argument("the handle names memory of process " +
                                    std::to_string(named.process) + ", not of " + peer_.text());
  }
  return imports_.import(peer_.visible, named, [&] { return fetch(named); });
}

Result<Fd> ShmLink::fetch(const transport::MemoryHandle& memory) const {
  // /proc asks for less than pidfd_getfd(), which Yama's ptrace_scope forbids between siblings.
  const std::string path =
      "/proc/" + std::to_string(peer_.visible) + "/fd/" + std::to_string(memory.fd);
  Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && liveness_.process_fd() >= 0) {
    fd.reset(static_cast<int>(syscall(SYS_pidfd_getfd, liveness_.process_fd(), memory.fd, 0)));
  }
  if (!fd.valid()) {
    const int error = errno;
    if (Status alive = status(); !alive.ok()) return alive;
    if (error == ESRCH) return Status::remote_error(peer_.text() + ": its process has ended");
    errno = error;
    const bool is_closed = error == EACCES || error == EPERM;
    return errno_status("cannot map registered memory of " + peer_.text() +
                        " (both processes need the same user and PID namespace, and /proc" +
                        (is_closed ? "; a program that is setuid, has file capabilities or called "
                                     "prctl(PR_SET_DUMPABLE, 0) is closed to others, and cannot "
                                     "register: its calls work without)"
                                   : ")"));
  }
  if (!transport::names_file(memory, fd.get())) {
    return Status::remote_error("the registered memory of " + peer_.text() + " is gone");
  }
  return fd;
}

Status ShmLink::give_descriptor(int descriptor) {
  const Status given = shm::give_descriptor(liveness_.socket(), descriptor);
  return given.ok() ? given : explain(given, "giving a descriptor to");
}

Result<Fd> ShmLink::take_descriptor(int descriptor) {
  Result<Fd> taken = shm::take_descriptor(liveness_.socket(), descriptor);
  if (taken.ok()) return taken;
  if (Status alive = status(); !alive.ok()) return alive;
  return explain(taken.status(), "taking a descriptor of");
}

Status ShmLink::read(transport::Buffer target, uint64_t source) {
  const Status status =
      copy_across(CopyWay::kRead, peer_.visible, target.data, source, target.bytes);
  // A process id is used again after a death: what was read counts only if the peer lived on.
  if (Status alive = this->status(); !alive.ok()) return alive;
  return status.ok() ? status : explain(status, "reading memory of");
}

Status ShmLink::write(uint64_t target, transport::ConstBuffer source) {
  // Before, since what is written into another process cannot be taken back. Between this look and
  // the call ids would have to go round once.
  if (Status alive = status(); !alive.ok()) return alive;
  auto* const here = const_cast<std::byte*>(source.data);  // only read
  const Status status = copy_across(CopyWay::kWrite, peer_.visible, here, target, source.bytes);
  return status.ok() ? status : explain(status, "writing memory of");
}

Status ShmLink::explain(const Status& status, const char* what) const {
  return Status(status.code(),
                std::string(what) + " " + peer_.text() + ": " + std::string(status.message()));
}

}  // namespace tutti::transports::shm
