// Memory of a device, as the hardware of a transport can be told of it: cards read and write it by
// themselves, and this rank's processor never touches it.
//
// Owns: nothing of the memory. Threads: see each function. Errors: Status.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace tutti::transport {

/// Memory of a device that has a descriptor of a dmabuf.
struct DeviceRange {
  std::byte* address = nullptr;  // as the device's driver knows it; messages name it so
  size_t bytes = 0;
  int descriptor = -1;  // the caller's; hardware that is told of it has one of its own
  uint64_t offset = 0;  // of the address in the dmabuf
};

/// The hardware knows the range for as long as this lives: it ends before the memory does, and
/// after every message that may use it.
class DeviceAnnouncement {
 public:
  virtual ~DeviceAnnouncement() = default;
  DeviceAnnouncement() = default;
  DeviceAnnouncement(const DeviceAnnouncement&) = delete;
  DeviceAnnouncement& operator=(const DeviceAnnouncement&) = delete;

  // A message that has been received, by the hardware's word, may still be on its way to the
  // device's memory: a read by the same hardware pushes it there. The device may read what was
  // received before begin_flush() once is_flushed() says so. One thread at a time.
  /// Never waits. While one is under way another one begins when that is over.
  virtual Status begin_flush() = 0;
  /// Never waits. An error: the hardware failed, and nothing is known.
  virtual Result<bool> is_flushed() = 0;
};

}  // namespace tutti::transport
