#include "src/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/write_signals.h"

namespace tutti {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The kernel itself refuses it to nobody.
Status cannot_be_made() {
  const bool is_filtered = errno == EPERM || errno == EACCES || errno == ENOSYS;
  Status status = errno_status("memfd_create");
  if (!is_filtered) return status;
  return Status::system_error(
      std::string(status.message()) +
      " (a filter of system calls forbids it: allow memfd_create in the seccomp profile of the "
      "container or of the service)");
}

}  // namespace

Result<Fd> make_memory_file(const std::string& label, size_t bytes) {
  Fd fd(memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return cannot_be_made();
  const NoWriteSignals no_signals;
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0) {
    return errno_status("ftruncate of shared memory to " + std::to_string(bytes) + " bytes");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) < 0) return errno_status("fcntl(F_ADD_SEALS)");
  return fd;
}

Status check_memory_file(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return errno_status("the descriptor is no memfd: fcntl(F_GET_SEALS)");
  if ((seals & kSeals) == kSeals) return {};
  return Status::remote_error("the peer's memory is not sealed: its size could change under us");
}

}  // namespace tutti
