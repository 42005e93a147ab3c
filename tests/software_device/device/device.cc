#include "tests/software_device/device/device.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

std::atomic<bool> initialized{false};
std::atomic<bool> forked{false};

struct Primaries {
  std::mutex mutex;
  std::vector<std::unique_ptr<Context>> of;  // by device; null: never used
};

Primaries& primaries() {
  static Primaries* const all = new Primaries;
  return *all;
}

bool& in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

int attribute(CUdevice_attribute which, CUdevice device) {
  switch (which) {
    case kDeviceCapabilityMajor:
      return 9;
    case kDeviceMultiprocessors:
      return static_cast<int>(settings().multiprocessors);
    case kDeviceSharedByMps:
      return static_cast<int>(settings().mps);
    case kDeviceMulticast:
      return device < settings().multicast ? 1 : 0;
    case kDeviceCopyEngines:
      return static_cast<int>(settings().engines);
    case kDevicePciBusId:
      return 0xa0 + device;
    case kDeviceUnifiedAddressing:
    case kDeviceCanMapHostMemory:
    case kDeviceStreamPriorities:
    case kDeviceHostPointerForRegistered:
    case kDeviceHostRegister:
    case kDeviceVirtualMemory:
    case kDeviceHandlePosixDescriptor:
    case kDevice64BitMemoryOps:
    case kDeviceWaitValueNor:
      return 1;
    default:
      return 0;  // not there: fabric handles, flushing, pageable access, ...
  }
}

}  // namespace

CUresult refusal() {
  if (in_host_function()) return kErrorNotPermitted;
  if (!initialized || forked) return kErrorNotInitialized;
  return sticky_error();
}

bool is_device(int device) { return device >= 0 && device < settings().devices; }

std::vector<Context*>& context_stack() {
  static thread_local std::vector<Context*> stack;
  return stack;
}

Stream* find_stream(Context& current, CUstream handle) {
  if (Stream* stream = current.resolve(handle)) return stream;
  std::vector<Context*> all;
  {
    const std::lock_guard lock(primaries().mutex);
    for (const auto& one : primaries().of) {
      if (one != nullptr) all.push_back(one.get());
    }
  }
  for (Context* one : all) {
    if (Stream* stream = one->resolve(handle)) return stream;
  }
  return nullptr;
}

Context* current_context() { return context_stack().empty() ? nullptr : context_stack().back(); }

bool is_context(CUcontext handle) {
  const std::lock_guard lock(primaries().mutex);
  for (const auto& context : primaries().of) {
    if (context != nullptr && context.get() == reinterpret_cast<Context*>(handle)) return true;
  }
  return false;
}

void run_host_function(CUhostFn function, void* data) {
  static std::mutex* const one_thread = new std::mutex;
  const std::lock_guard lock(*one_thread);
  in_host_function() = true;
  function(data);
  in_host_function() = false;
}

CUresult cuInit(unsigned flags) {
  if (flags != 0) return kErrorInvalidValue;
  if (forked) return kErrorNotInitialized;
  if (!wrong_variable().empty()) {
    std::fprintf(stderr, "[software device] there is no such setting: %s\n",
                 wrong_variable().c_str());
    return kErrorInvalidValue;
  }
  if (settings().init_result != 0) return static_cast<CUresult>(settings().init_result);
  if (settings().devices < 1) return kErrorNoDevice;
  const std::lock_guard lock(primaries().mutex);
  if (initialized) return kSuccess;
  primaries().of.resize(static_cast<size_t>(settings().devices));
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (settings().statistics != 0) std::atexit(print_statistics);
  initialized = true;
  return kSuccess;
}

CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(settings().version);
  return kSuccess;
}

CUresult cuDeviceGetCount(int* count_out) {
  return entered([&] {
    *count_out = static_cast<int>(settings().devices);
    return kSuccess;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return entered([&] {
    if (!is_device(ordinal)) return kErrorInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  return entered([&] {
    if (!is_device(device) || bytes < 1) return kErrorInvalidDevice;
    std::snprintf(name, static_cast<size_t>(bytes), "software device");
    return kSuccess;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return entered([&] {
    if (!is_device(device)) return kErrorInvalidDevice;
    std::memset(uuid->bytes, 0x5d, sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<unsigned char>(device);
    return kSuccess;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  return entered([&] {
    if (!is_device(device)) return kErrorInvalidDevice;
    *value = attribute(which, device);
    return kSuccess;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return entered([&] {
    if (!is_device(device) || !is_device(peer)) return kErrorInvalidDevice;
    const bool near = settings().island_said == 0 || are_near(device, peer);
    *can = device != peer && near ? 1 : 0;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return entered([&] {
    if (!is_device(device)) return kErrorInvalidDevice;
    const std::lock_guard lock(primaries().mutex);
    auto& primary = primaries().of[static_cast<size_t>(device)];
    if (primary == nullptr) primary = std::make_unique<Context>(device);
    ++primary->shares;
    *context = reinterpret_cast<CUcontext>(primary.get());
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return entered([&] {
    if (!is_device(device)) return kErrorInvalidDevice;
    const std::lock_guard lock(primaries().mutex);
    auto& primary = primaries().of[static_cast<size_t>(device)];
    if (primary == nullptr || primary->shares == 0) return kErrorInvalidContext;
    --primary->shares;
    return kSuccess;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return entered([&] {
    if (!is_device(device)) return kErrorInvalidDevice;
    const std::lock_guard lock(primaries().mutex);
    const auto& primary = primaries().of[static_cast<size_t>(device)];
    *flags = 0;
    *active = primary != nullptr && primary->shares > 0 ? 1 : 0;
    return kSuccess;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return entered([&] {
    if (!is_context(context)) return kErrorInvalidContext;
    context_stack().push_back(reinterpret_cast<Context*>(context));
    return kSuccess;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return entered([&] {
    if (context_stack().empty()) return kErrorInvalidContext;
    if (context != nullptr) *context = reinterpret_cast<CUcontext>(context_stack().back());
    context_stack().pop_back();
    return kSuccess;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return entered([&] {
    if (context != nullptr && !is_context(context)) return kErrorInvalidContext;
    if (!context_stack().empty()) context_stack().pop_back();
    if (context != nullptr) context_stack().push_back(reinterpret_cast<Context*>(context));
    return kSuccess;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return entered([&] {
    *context = reinterpret_cast<CUcontext>(current_context());
    return kSuccess;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return in_context([&](Context& context) {
    *device = context.device;
    return kSuccess;
  });
}

CUresult cuCtxSynchronize() {
  return in_context_outside_captures([](Context& context) { return drain(context); });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return entered([&] {
    std::swap(thread_capture_mode(), *mode);
    return kSuccess;
  });
}

}  // namespace softdev
