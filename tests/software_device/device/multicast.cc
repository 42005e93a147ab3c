#include "tests/software_device/device/multicast.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

constexpr uint64_t kMulticastMagic = 0x7473'6163'6974'6c75;
constexpr unsigned kMostDevices = 64;

}  // namespace

/// In the memfd. The mutex is all processes'; one that dies with it takes the object along.
struct Multicast::Shared {
  struct Binding {
    bool bound = false;
    int device = 0;
    size_t offset = 0, bytes = 0;  // in the object
    int process = 0, fd = -1;      // whose memory
    uint64_t inode = 0;
    size_t from = 0;  // in it
  };

  uint64_t magic = kMulticastMagic;
  pthread_mutex_t mutex;
  unsigned devices = 0, added = 0;
  size_t bytes = 0;
  int team[kMostDevices] = {};
  Binding bindings[kMostDevices] = {};

  bool has(int device) const {
    for (unsigned i = 0; i < added; ++i) {
      if (team[i] == device) return true;
    }
    return false;
  }
  Binding* find(int device, size_t begin, size_t length) {
    for (Binding& one : bindings) {
      if (!one.bound || one.device != device || begin < one.offset) continue;
      if (begin - one.offset + length <= one.bytes) return &one;
    }
    return nullptr;
  }
};

namespace {

class SharedLock {
 public:
  explicit SharedLock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~SharedLock() { pthread_mutex_unlock(&mutex_); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

Multicast::~Multicast() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  if (fd_ >= 0) close(fd_);
}

bool Multicast::map() {
  void* mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) return false;
  shared_ = static_cast<Shared*>(mapped);
  return true;
}

std::shared_ptr<Multicast> Multicast::make(unsigned devices, size_t bytes) {
  std::shared_ptr<Multicast> made(new Multicast);
  made->fd_ = memfd_create("software_multicast", MFD_CLOEXEC);
  Shared first;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&first.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  first.devices = devices;
  first.bytes = bytes;
  const bool written = made->fd_ >= 0 && pwrite(made->fd_, &first, sizeof first, 0) == sizeof first;
  return written && made->map() ? made : nullptr;
}

std::shared_ptr<Multicast> Multicast::import(int fd) {
  uint64_t magic = 0;
  struct stat facts {};
  if (fstat(fd, &facts) != 0 || facts.st_size != static_cast<off_t>(sizeof(Shared))) return nullptr;
  if (pread(fd, &magic, sizeof magic, 0) != sizeof magic || magic != kMulticastMagic) {
    return nullptr;
  }
  std::shared_ptr<Multicast> made(new Multicast);
  made->fd_ = fd;
  if (made->map()) return made;
  made->fd_ = -1;
  return nullptr;
}

size_t Multicast::bytes() const { return shared_->bytes; }

bool Multicast::has(int device) const {
  const SharedLock lock(shared_->mutex);
  return shared_->has(device);
}

bool Multicast::is_whole() const {
  const SharedLock lock(shared_->mutex);
  return shared_->added == shared_->devices;
}

CUresult Multicast::add(int device) {
  const SharedLock lock(shared_->mutex);
  if (shared_->has(device) || shared_->added == shared_->devices) return kErrorInvalidValue;
  shared_->team[shared_->added++] = device;
  return kSuccess;
}

CUresult Multicast::bind(size_t offset, std::shared_ptr<Physical> physical, size_t from,
                         size_t bytes) {
  const bool in_units =
      offset % kMulticastUnit == 0 && from % kMulticastUnit == 0 && bytes % kMulticastUnit == 0;
  if (!in_units || bytes == 0) return kErrorInvalidValue;
  if (from + bytes > physical->bytes || offset + bytes > shared_->bytes) return kErrorInvalidValue;
  const std::lock_guard own(mutex_);
  const SharedLock lock(shared_->mutex);
  if (shared_->added != shared_->devices) return kErrorNotReady;  // a board waits
  if (!shared_->has(physical->device)) return kErrorInvalidDevice;
  Shared::Binding* room = nullptr;
  for (Shared::Binding& one : shared_->bindings) {
    if (!one.bound) room = room != nullptr ? room : &one;
    const bool meets = one.offset < offset + bytes && offset < one.offset + one.bytes;
    if (one.bound && one.device == physical->device && meets) return kErrorInvalidValue;
  }
  if (room == nullptr) return kErrorOutOfMemory;
  *room = {true, physical->device, offset, bytes, getpid(), physical->fd, physical->inode, from};
  known_[physical->inode] = std::move(physical);
  return kSuccess;
}

CUresult Multicast::unbind(int device, size_t offset, size_t bytes) {
  const std::lock_guard own(mutex_);
  const SharedLock lock(shared_->mutex);
  Shared::Binding* const found = shared_->find(device, offset, bytes);
  if (found == nullptr || found->offset != offset || found->bytes != bytes) {
    return kErrorInvalidValue;
  }
  found->bound = false;
  known_.erase(found->inode);
  return kSuccess;
}

// The process that has bound it keeps its descriptor until it unbinds it.
std::shared_ptr<Physical> Multicast::memory_of(int process, int fd, uint64_t inode) {
  const auto known = known_.find(inode);
  if (known != known_.end()) return known->second;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, fd);
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0) return nullptr;
  std::shared_ptr<Physical> physical = Physical::import(opened);
  if (physical == nullptr || physical->inode != inode) return nullptr;
  known_[inode] = physical;
  return physical;
}

std::vector<Segment> Multicast::locate(size_t offset, size_t bytes) {
  const std::lock_guard own(mutex_);
  const SharedLock lock(shared_->mutex);
  std::vector<Segment> all;
  if (shared_->added != shared_->devices) return all;
  for (unsigned i = 0; i < shared_->added; ++i) {
    const Shared::Binding* found = shared_->find(shared_->team[i], offset, bytes);
    if (found == nullptr) return {};
    std::shared_ptr<Physical> memory = memory_of(found->process, found->fd, found->inode);
    if (memory == nullptr) return {};
    const uint64_t at = found->from + (offset - found->offset);
    all.push_back({memory->alias + at, bytes, {memory->inode, at}, memory});
  }
  return all;
}

CUresult map_multicast(CUdeviceptr address, size_t bytes, size_t offset,
                       std::shared_ptr<Multicast> multicast) {
  const bool in_units = address % kMulticastUnit == 0 && bytes % kMulticastUnit == 0 &&
                        offset % kMulticastUnit == 0 && bytes > 0;
  if (!in_units || offset + bytes > multicast->bytes()) return kErrorInvalidValue;
  if (!multicast->is_whole()) return kErrorNotReady;  // a board waits
  Mapping mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.kind = Kind::kMulticast;
  mapping.multicast = std::move(multicast);
  mapping.offset = offset;
  return addresses().map(std::move(mapping));
}

}  // namespace softdev
