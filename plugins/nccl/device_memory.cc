#include "plugins/nccl/device_memory.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

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

// How many objects the process has ever loaded. Asking for one by its name would search the disk.
unsigned long long objects_loaded() {
  unsigned long long loaded = 0;
  const auto first = [](dl_phdr_info* info, size_t, void* to) {
    *static_cast<unsigned long long*>(to) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(first, &loaded);
  return loaded;
}

// The CUDA runtime loads the driver at a program's first call of it, at any time.
void look_for_cuda() {
  if (pointer_get_attribute.load(std::memory_order_acquire) != nullptr) return;
  const unsigned long long loaded = objects_loaded();
  if (objects_seen.load(std::memory_order_relaxed) == loaded) return;
  void* driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  objects_seen.store(loaded, std::memory_order_relaxed);
  if (driver == nullptr) return;
  ctx_get_device.store(reinterpret_cast<CtxGetDevice>(dlsym(driver, "cuCtxGetDevice")));
  pointer_get_attribute.store(
      reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute")));
}

}  // namespace

bool is_device_memory(const void* address) {
  look_for_cuda();
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
  look_for_cuda();
  const CtxGetDevice get = ctx_get_device.load(std::memory_order_acquire);
  int device = 0;
  return get != nullptr && get(&device) == kCudaSuccess ? device : 0;
}

}  // namespace tutti::nccl
