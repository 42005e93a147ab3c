// Reads and writes of one file in the background.
//
// Owns:    threads; not the memory of requests, which must stay until their `done` was called.
// Threads: submit() and cancel() from any; `done` is called by a thread of the disk.
// Errors:  `done` gets 0 or an errno value; a file that ends early is EIO, a disk that takes
//          nothing more is ENOSPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tutti/runtime/offload.h"

namespace tutti::runtime::offload {

struct DiskRequest {
  bool is_write = false;
  int64_t offset = 0;
  char* data = nullptr;
  int64_t bytes = 0;
  std::function<void(int error)> done;
};

class Disk {
 public:
  virtual ~Disk() = default;
  /// Reads go before writes, else in order. Returns the request's number.
  virtual int64_t submit(DiskRequest request) = 0;
  /// True: it had not begun, and `done` will not be called.
  virtual bool cancel(int64_t number) = 0;
  /// From now on at full speed, whatever the limit is.
  virtual void hurry() = 0;
  virtual const char* name() const = 0;
};

/// By pread() and pwrite() of so many threads.
std::unique_ptr<Disk> threads_disk(int fd, int threads, const OffloadRates& limit);
/// By io_uring; null where the kernel refuses it.
std::unique_ptr<Disk> ring_disk(int fd, const OffloadRates& limit);

/// Bytes of a request that go to the kernel at once.
inline constexpr int64_t kDiskPiece = int64_t{1} << 20;

}  // namespace tutti::runtime::offload
