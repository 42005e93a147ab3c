#include "plugins/nccl/device_memory.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/nccl/forks.h"

namespace tutti::nccl {
namespace {

// Of the CUDA driver's interface, whose values are fixed.
using GetProcAddress = int (*)(const char* name, void** function, int version, uint64_t flags,
                               int* found);
struct Driver {
  int (*pointer_get_attribute)(void* value, int attribute, uint64_t pointer) = nullptr;
  int (*ctx_get_device)(int* device) = nullptr;
  int (*device_get_count)(int* count) = nullptr;
  int (*retain_primary)(void** context, int device) = nullptr;
  int (*push_context)(void* context) = nullptr;
  int (*pop_context)(void** context) = nullptr;

  bool is_complete() const {
    return pointer_get_attribute != nullptr && ctx_get_device != nullptr &&
           device_get_count != nullptr && retain_primary != nullptr && push_context != nullptr &&
           pop_context != nullptr;
  }
};
constexpr int kPointerGetAttributeVersion = 4000;
constexpr int kCtxGetDeviceVersion = 2000;
constexpr int kDeviceGetCountVersion = 2000;
constexpr int kRetainPrimaryVersion = 7000;
constexpr int kPushContextVersion = 4000;
constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeIsManaged = 8;
constexpr unsigned kMemoryTypeDevice = 2;
constexpr int kCudaSuccess = 0;

// tidy: allow mutable (which driver the process has loaded is a fact about the process)
std::atomic<const Driver*> driver{nullptr};
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

template <class Function>
void resolve(GetProcAddress get, const char* name, int version, Function*& function) {
  int found = 0;
  void* address = nullptr;
  if (get(name, &address, version, 0, &found) == kCudaSuccess) {
    function = reinterpret_cast<Function*>(address);
  }
}

// Not under our lock: the loader waits here for the constructors of what other threads load, which
// may call us. A child's loader is as good as new after this: nothing is searched for.
void take(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return;
  Driver found;
  resolve(get, "cuPointerGetAttribute", kPointerGetAttributeVersion, found.pointer_get_attribute);
  resolve(get, "cuCtxGetDevice", kCtxGetDeviceVersion, found.ctx_get_device);
  resolve(get, "cuDeviceGetCount", kDeviceGetCountVersion, found.device_get_count);
  resolve(get, "cuDevicePrimaryCtxRetain", kRetainPrimaryVersion, found.retain_primary);
  resolve(get, "cuCtxPushCurrent", kPushContextVersion, found.push_context);
  resolve(get, "cuCtxPopCurrent", kPushContextVersion, found.pop_context);
  if (!found.is_complete()) return;
  auto made = std::make_unique<const Driver>(found);
  const Driver* none = nullptr;
  // Like the library it is never given up.
  if (driver.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) {
    (void)made.release();
  }
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

bool is_look_due() {
  return Clock::now().time_since_epoch().count() >= next_look.load(std::memory_order_acquire);
}

/// Null without one.
const Driver* find_driver() {
  const Driver* known = driver.load(std::memory_order_acquire);
  if (known != nullptr || !is_look_due()) return known;
  look_for_cuda();
  return driver.load(std::memory_order_acquire);
}

/// False for ordinary memory of the host, which the driver does not know.
bool is_known(const Driver& cuda, const void* address, unsigned& type) {
  const auto pointer = reinterpret_cast<uint64_t>(address);
  return cuda.pointer_get_attribute(&type, kAttributeMemoryType, pointer) == kCudaSuccess;
}

bool has_current_device(const Driver& cuda) {
  int device = 0;
  return cuda.ctx_get_device(&device) == kCudaSuccess;
}

}  // namespace

bool is_device_memory(const void* address) {
  const Driver* cuda = find_driver();
  unsigned type = 0, managed = 0;
  if (cuda == nullptr || !is_known(*cuda, address, type)) return false;
  const auto pointer = reinterpret_cast<uint64_t>(address);
  cuda->pointer_get_attribute(&managed, kAttributeIsManaged, pointer);
  return type == kMemoryTypeDevice && managed == 0;
}

tuttiStream_t stream_for(std::span<const void* const> buffers, cudaStream_t stream) {
  const Driver* cuda = find_driver();
  if (cuda == nullptr) return tuttiBlocking();
  bool has_buffers = false;
  for (const void* buffer : buffers) {
    if (buffer == nullptr) continue;
    has_buffers = true;
    unsigned type = 0;
    if (is_known(*cuda, buffer, type)) return tuttiStreamCuda(stream);
  }
  const bool on_stream = !has_buffers && (stream != nullptr || has_current_device(*cuda));
  return on_stream ? tuttiStreamCuda(stream) : tuttiBlocking();
}

// The context is kept for the process: NCCL's device 0 stays in use as well. Where the program has
// not initialized the driver it uses no CUDA, and the driver refuses.
DefaultDevice::DefaultDevice() {
  if (driver.load(std::memory_order_acquire) == nullptr) look_for_cuda();
  const Driver* cuda = driver.load(std::memory_order_acquire);
  if (cuda == nullptr || has_current_device(*cuda)) return;
  // tidy: allow mutable (a device is made usable once in a process, and stays so)
  static std::atomic<void*> kept{nullptr};
  void* context = kept.load(std::memory_order_acquire);
  if (context == nullptr) {
    if (cuda->retain_primary(&context, 0) != kCudaSuccess) return;
    kept.store(context, std::memory_order_release);
  }
  entered_ = cuda->push_context(context) == kCudaSuccess;
}

DefaultDevice::~DefaultDevice() {
  if (!entered_) return;
  void* popped = nullptr;
  (void)driver.load(std::memory_order_acquire)->pop_context(&popped);
}

int current_device() {
  if (driver.load(std::memory_order_acquire) == nullptr) look_for_cuda();
  const Driver* cuda = driver.load(std::memory_order_acquire);
  int device = 0;
  return cuda != nullptr && cuda->ctx_get_device(&device) == kCudaSuccess ? device : 0;
}

bool has_current_device() {
  const Driver* cuda = find_driver();
  return cuda != nullptr && has_current_device(*cuda);
}

int count_devices() {
  const Driver* cuda = find_driver();
  int count = -1;
  return cuda != nullptr && cuda->device_get_count(&count) == kCudaSuccess ? count : -1;
}

}  // namespace tutti::nccl
