#include "plugins/nccl/device_memory.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/nccl/forks.h"

namespace tutti::nccl {
namespace {

// Of the CUDA driver's interface, whose values are fixed.
using PointerGetAttribute = int (*)(void* value, int attribute, uint64_t pointer);
using CtxGetDevice = int (*)(int* device);
constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeIsManaged = 8;
constexpr unsigned kMemoryTypeDevice = 2;
constexpr int kCudaSuccess = 0;

// tidy: allow mutable (which driver the process has loaded is a fact about the process)
std::atomic<PointerGetAttribute> pointer_get_attribute{nullptr};
// tidy: allow mutable (the same)
std::atomic<CtxGetDevice> ctx_get_device{nullptr};
// tidy: allow mutable (the same)
std::atomic<unsigned long long> objects_seen{0};

using Clock = std::chrono::steady_clock;

// A GPU's memory comes from a context of the driver, whose making takes longer than this.
constexpr Clock::duration kBetweenLooks = std::chrono::milliseconds(10);
// tidy: allow mutable (the same)
std::atomic<Clock::rep> next_look{0};

struct Objects {
  unsigned long long loaded = 0;  // ever
  std::string driver;             // the path of the CUDA driver, if it is one of them
};

int look_at(dl_phdr_info* info, size_t, void* to) {
  auto& objects = *static_cast<Objects*>(to);
  objects.loaded = info->dlpi_adds;
  if (objects_seen.load(std::memory_order_acquire) == objects.loaded) return 1;
  const std::string_view path = info->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name != "libcuda.so" && !name.starts_with("libcuda.so.")) return 0;
  objects.driver = path;
  return 1;
}

// The C library has a lock for this that a forked child would find held for ever: so a fork waits.
// Asking the loader for the driver would search the disk, and break the loader of a child forked
// meanwhile.
Objects objects_of_process() {
  Objects objects;
  const std::lock_guard lock(process_mutex());
  dl_iterate_phdr(look_at, &objects);
  return objects;
}

// Not under our lock: the loader waits here for the constructors of what other threads load, which
// may call us. A child's loader is as good as new after this: nothing is searched for.
void take(const std::string& path) {
  void* driver = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return;
  ctx_get_device.store(reinterpret_cast<CtxGetDevice>(dlsym(driver, "cuCtxGetDevice")),
                       std::memory_order_release);
  pointer_get_attribute.store(
      reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute")),
      std::memory_order_release);
}

// The CUDA runtime loads the driver at a program's first call of it, at any time. Several threads
// may look: that one has looked is said last, when what it found is there for all.
void look_for_cuda() {
  const Clock::time_point begun = Clock::now();
  const Objects objects = objects_of_process();
  if (!objects.driver.empty()) take(objects.driver);
  objects_seen.store(objects.loaded, std::memory_order_release);
  next_look.store((begun + kBetweenLooks).time_since_epoch().count(), std::memory_order_release);
}

bool is_known() { return pointer_get_attribute.load(std::memory_order_acquire) != nullptr; }

bool is_look_due() {
  return Clock::now().time_since_epoch().count() >= next_look.load(std::memory_order_acquire);
}

}  // namespace

bool is_device_memory(const void* address) {
  if (!is_known() && is_look_due()) look_for_cuda();
  const PointerGetAttribute get = pointer_get_attribute.load(std::memory_order_acquire);
  if (get == nullptr) return false;
  const auto pointer = reinterpret_cast<uint64_t>(address);
  unsigned type = 0;
  // The driver does not know ordinary memory of the host.
  if (get(&type, kAttributeMemoryType, pointer) != kCudaSuccess) return false;
  unsigned managed = 0;
  get(&managed, kAttributeIsManaged, pointer);
  return type == kMemoryTypeDevice && managed == 0;
}

int current_device() {
  if (!is_known()) look_for_cuda();
  const CtxGetDevice get = ctx_get_device.load(std::memory_order_acquire);
  int device = 0;
  return get != nullptr && get(&device) == kCudaSuccess ? device : 0;
}

}  // namespace tutti::nccl
