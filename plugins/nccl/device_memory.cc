#include "plugins/nccl/device_memory.h"

#include <dlfcn.h>

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

}  // namespace

void look_for_cuda() {
  if (pointer_get_attribute.load(std::memory_order_acquire) != nullptr) return;
  void* driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return;
  ctx_get_device.store(reinterpret_cast<CtxGetDevice>(dlsym(driver, "cuCtxGetDevice")));
  pointer_get_attribute.store(
      reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute")));
}

bool is_device_memory(const void* address) {
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
