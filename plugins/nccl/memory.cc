// Memory of the calling thread's device, or else memory that ranks of one host can map; and its
// registration.
//
// A registration (ncclCommRegister) is one rank's own affair in NCCL and only ever a hint, so here
// it is a handle and nothing else. A window is collective, and any memory is for one-sided access.
// Collectives use it without staging if every rank registers memory from ncclMemAlloc as
// NCCL_WIN_COLL_SYMMETRIC, which promises that all ranks of a call pass buffers in it, and of
// device memory that these are at one place of it. Otherwise a window is a hint as well: in NCCL
// one rank may call with a window where another has none.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/device_memory.h"
#include "plugins/nccl/forks.h"
#include "plugins/nccl/windows.h"

namespace tutti::nccl {
namespace {

struct Allocation {
  size_t bytes = 0;
  uint32_t generation = 0;  // of the process that made it: what a fork inherits cannot be mapped
};

/// The host memory that ncclMemAlloc gave out. Under the process's mutex, also while it is made.
std::map<const void*, Allocation>& allocations() {
  // tidy: allow mutable (ncclMemFree gets nothing but the address)
  static auto* const allocations = new std::map<const void*, Allocation>;
  return *allocations;
}

ncclResult_t allocate(void** memory, size_t bytes) {
  if (memory == nullptr) return refuse("ncclMemAlloc", "the place for the address is null");
  *memory = nullptr;
  if (bytes == 0) return ncclSuccess;
  if (has_current_device()) {
    return translate(tuttiMemAllocFor(memory, bytes, tuttiStreamCuda(nullptr)));
  }
  const ncclResult_t result = translate(tuttiMemAlloc(memory, bytes));
  if (result != ncclSuccess) return result;
  const std::lock_guard lock(process_mutex());
  allocations()[*memory] = {bytes, process_generation()};
  return ncclSuccess;
}

ncclResult_t release(void* memory) {
  if (memory == nullptr) return ncclSuccess;
  {
    const std::lock_guard lock(process_mutex());
    allocations().erase(memory);
  }
  return translate(tuttiMemFree(memory));
}

ncclResult_t add_registration(ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  constexpr char kName[] = "ncclCommRegister";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  if (memory == nullptr || bytes == 0) return refuse(kName, "the memory is empty");
  if (handle == nullptr) return refuse(kName, "the place for the handle is null");
  const std::lock_guard lock(comm->mutex);
  ++comm->registrations[memory];
  *handle = memory;
  return ncclSuccess;
}

/// The window of this handle, which nobody else can end meanwhile; null if there is none.
std::unique_ptr<ncclWindow_vidmem> take_window(ncclComm_t comm, void* handle) {
  const std::lock_guard lock(comm->mutex);
  const auto found = comm->windows.find(handle);
  if (found == comm->windows.end()) return nullptr;
  std::unique_ptr<ncclWindow_vidmem> window = std::move(found->second);
  comm->windows.erase(found);
  return window;
}

ncclResult_t remove_registration(ncclComm_t comm, void* handle, const char* function) {
  const std::lock_guard lock(comm->mutex);
  const auto kept = comm->registrations.find(handle);
  if (kept == comm->registrations.end()) {
    return refuse(function, "the handle is neither a registration nor a window");
  }
  if (--kept->second == 0) comm->registrations.erase(kept);
  return ncclSuccess;
}

/// Takes a window or a registration back; programs pass either kind to either function.
ncclResult_t remove(ncclComm_t comm, void* handle, const char* function) {
  if (const ncclResult_t bad = check_handle(comm, function); bad != ncclSuccess) return bad;
  if (handle == nullptr) return ncclSuccess;
  std::unique_ptr<ncclWindow_vidmem> window = take_window(comm, handle);
  if (window == nullptr) return remove_registration(comm, handle, function);
  const ncclResult_t result = end_window(comm, *window);
  if (window->window == nullptr && window->registration == nullptr) return result;
  const std::lock_guard lock(comm->mutex);  // refused: the program has its handle still
  comm->windows[handle] = std::move(window);
  return result;
}

ncclResult_t memory_of(ncclComm_t comm, ncclWindow_t window, void** memory) {
  constexpr char kName[] = "ncclWinGetUserPtr";
  if (const ncclResult_t bad = check_handle(comm, kName); bad != ncclSuccess) return bad;
  if (memory == nullptr) return refuse(kName, "the place for the address is null");
  *memory = nullptr;
  const std::lock_guard lock(comm->mutex);
  const auto found = comm->windows.find(window);
  if (found == comm->windows.end()) return refuse(kName, "the handle is not a window");
  *memory = found->second->memory;
  return ncclSuccess;
}

}  // namespace

bool can_be_shared(const void* memory, size_t bytes) {
  const std::lock_guard lock(process_mutex());
  const auto found = allocations().find(memory);
  return found != allocations().end() && bytes <= found->second.bytes &&
         found->second.generation == process_generation();
}

}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclMemAlloc(void** memory, size_t bytes) {
  return caught([&] { return allocate(memory, bytes); });
}

ncclResult_t pncclMemFree(void* memory) {
  return caught([&] { return release(memory); });
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  return caught([&] { return add_registration(comm, memory, bytes, handle); });
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return caught([&] { return remove(comm, handle, "ncclCommDeregister"); });
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes,
                                     ncclWindow_t* window, int flags) {
  return caught([&]() -> ncclResult_t {
    constexpr char kName[] = "ncclCommWindowRegister";
    if (window != nullptr) *window = nullptr;
    ncclResult_t result = check_usable(comm, kName);
    if (result == ncclSuccess) {
      result = add_or_defer({comm, memory, bytes, window, flags});
    }
    return part_of_group(result);
  });
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return caught([&] { return remove(comm, window, "ncclCommWindowDeregister"); });
}

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** memory) {
  return caught([&] { return memory_of(comm, window, memory); });
}

[[gnu::weak, gnu::alias("pncclMemAlloc")]] decltype(pncclMemAlloc) ncclMemAlloc;
[[gnu::weak, gnu::alias("pncclMemFree")]] decltype(pncclMemFree) ncclMemFree;
[[gnu::weak, gnu::alias("pncclCommRegister")]] decltype(pncclCommRegister) ncclCommRegister;
[[gnu::weak, gnu::alias("pncclCommDeregister")]] decltype(pncclCommDeregister) ncclCommDeregister;
[[gnu::weak,
  gnu::alias("pncclCommWindowRegister")]] decltype(pncclCommWindowRegister) ncclCommWindowRegister;
[[gnu::weak,
  gnu::alias(
      "pncclCommWindowDeregister")]] decltype(pncclCommWindowDeregister) ncclCommWindowDeregister;
[[gnu::weak, gnu::alias("pncclWinGetUserPtr")]] decltype(pncclWinGetUserPtr) ncclWinGetUserPtr;

}  // extern "C"
