// The handles that a process has: of device memory, and of multicast objects.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "tests/software_device/device/memory.h"
#include "tests/software_device/device/multicast.h"

namespace softdev {

struct Handles {
  /// Of one of both.
  struct Entry {
    std::shared_ptr<Physical> physical{};
    std::shared_ptr<Multicast> multicast{};
    int given_out = 1;
    bool imported = false;
  };
  std::mutex mutex;
  std::map<CUmemGenericAllocationHandle, Entry> entries;
};

Handles& handles();
CUmemGenericAllocationHandle give_out(Handles::Entry entry);
/// Neither of both: there is no such handle.
Handles::Entry entry_of(CUmemGenericAllocationHandle handle);

}  // namespace softdev
