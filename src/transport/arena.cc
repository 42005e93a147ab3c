#include "src/transport/arena.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <utility>

#include "src/base/io.h"
#include "src/base/memory_file.h"
#include "src/base/mutex.h"

namespace tutti::transport {
namespace {

Status check_size(size_t bytes) {
  if (bytes == 0) return Status::invalid_argument("an arena of 0 bytes has no use");
  if (bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    return Status::invalid_argument("an arena of " + std::to_string(bytes) +
                                    " bytes is larger than any file");
  }
  return {};
}

#if defined(__SANITIZE_THREAD__)
constexpr bool kMapOnce = true;
#else
constexpr bool kMapOnce = false;
#endif

/// The thread sanitizer knows memory by its address: a flag stored by one thread and seen by
/// another through a mapping of its own orders nothing for it. So there a process maps a file once.
class Mappings {
 public:
  /// The mapping of `file` that there is, for one more user, or null.
  std::byte* share(const struct stat& file) TUTTI_REQUIRES(mutex) {
    const auto found = mapped_.find({file.st_dev, file.st_ino});
    if (found == mapped_.end()) return nullptr;
    ++found->second.users;
    return found->second.data;
  }
  void add(const struct stat& file, std::byte* data) TUTTI_REQUIRES(mutex) {
    mapped_[{file.st_dev, file.st_ino}] = {data, 1};
  }
  /// Whether that was its last user.
  bool leave(const std::byte* data) TUTTI_REQUIRES(mutex) {
    for (auto it = mapped_.begin(); it != mapped_.end(); ++it) {
      if (it->second.data != data || --it->second.users > 0) continue;
      mapped_.erase(it);
      return true;
    }
    return false;
  }
  Mutex mutex;

 private:
  struct Mapping {
    std::byte* data = nullptr;
    int users = 0;
  };
  std::map<std::pair<dev_t, ino_t>, Mapping> mapped_ TUTTI_GUARDED_BY(mutex);
};

Mappings& mappings() {
  // tidy: allow mutable (the address space is the process's; destroyed by nobody)
  static Mappings* const all = new Mappings();
  return *all;
}

Result<std::byte*> map_new(int fd, size_t bytes) {
  // No reservation: the arena is sparse, and most of it may never be touched.
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    return errno_status("mmap of an arena of " + std::to_string(bytes) + " bytes");
  }
  return static_cast<std::byte*>(data);
}

Result<std::byte*> map_shared(int fd, size_t bytes) {
  if (!kMapOnce) return map_new(fd, bytes);
  struct stat file {};
  if (fstat(fd, &file) < 0) return errno_status("fstat of an arena");
  const MutexLock lock(mappings().mutex);
  if (std::byte* const shared = mappings().share(file); shared != nullptr) return shared;
  Result<std::byte*> data = map_new(fd, bytes);
  if (data.ok()) mappings().add(file, data.value());
  return data;
}

void unmap(std::byte* data, size_t bytes) {
  if (!kMapOnce) {
    munmap(data, bytes);
    return;
  }
  const MutexLock lock(mappings().mutex);
  if (mappings().leave(data)) munmap(data, bytes);
}

Status check_adopted(int fd, size_t bytes) {
  if (Status status = check_memory_file(fd); !status.ok()) return status;
  struct stat file {};
  if (fstat(fd, &file) < 0) return errno_status("fstat of the peer's arena");
  if (static_cast<size_t>(file.st_size) != bytes) {
    return Status::remote_error("the peer's arena has " + std::to_string(file.st_size) +
                                " bytes, but " + std::to_string(bytes) + " were announced");
  }
  return {};
}

}  // namespace

Result<Arena> Arena::create(const std::string& label, size_t bytes) {
  if (Status status = check_size(bytes); !status.ok()) return status;
  Result<Fd> fd = make_memory_file(label, bytes);
  if (!fd.ok()) return fd.status();
  Result<std::byte*> data = map_shared(fd.value().get(), bytes);
  if (!data.ok()) return data.status();
  return Arena(fd.value().release(), data.value(), bytes);
}

Result<Arena> Arena::adopt(int fd, size_t bytes) {
  Fd owned(fd);
  if (Status status = check_size(bytes); !status.ok()) return status;
  if (Status status = check_adopted(owned.get(), bytes); !status.ok()) return status;
  Result<std::byte*> data = map_shared(owned.get(), bytes);
  if (!data.ok()) return data.status();
  return Arena(owned.release(), data.value(), bytes);
}

Arena::Arena(Arena&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    Arena dropped(std::move(*this));
    fd_ = std::exchange(other.fd_, -1);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Arena::close_descriptor() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Arena::~Arena() {
  if (data_ != nullptr) unmap(data_, bytes_);
  close_descriptor();
}

}  // namespace tutti::transport
