// All that the library shows: the function that finds the others, and the hooks of tests.
#include <cstring>
#include <iterator>
#include <string_view>

#include "tests/software_device/device/checker.h"
#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

#define SOFTDEV_VISIBLE __attribute__((visibility("default")))

namespace softdev {

extern "C" {
CUresult softdev_copy_batch_128(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                size_t*, size_t, size_t*, CUstream);
CUresult softdev_copy_batch_130(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                size_t*, size_t, CUstream);
}

namespace {

struct Entry {
  const char* name;
  int version;
  void* function;
};

#define SOFTDEV_ENTRY(name, version, parameters) {#name, version, reinterpret_cast<void*>(name)},
const Entry kEntries[] = {
    TUTTI_CUDA_FUNCTIONS(SOFTDEV_ENTRY) TUTTI_CUDA_OPTIONAL_FUNCTIONS(SOFTDEV_ENTRY)
        SOFTDEV_MORE_FUNCTIONS(SOFTDEV_ENTRY){"cuMemcpyBatchAsync", 12080,
                                              reinterpret_cast<void*>(softdev_copy_batch_128)},
    {"cuMemcpyBatchAsync", 13000, reinterpret_cast<void*>(softdev_copy_batch_130)},
};
#undef SOFTDEV_ENTRY

struct Error {
  CUresult result;
  const char* name;
  const char* text;
};

const Error kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE", "an argument is wrong"},
    {kErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "no memory is left"},
    {kErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "cuInit was not called here"},
    {kErrorNoDevice, "CUDA_ERROR_NO_DEVICE", "there is no device"},
    {kErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no such device"},
    {kErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "there is no such context"},
    {kErrorMapFailed, "CUDA_ERROR_MAP_FAILED", "memory could not be mapped"},
    {kErrorOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM", "the operating system refused"},
    {kErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "there is no such object"},
    {kErrorIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "not in this state"},
    {kErrorNotFound, "CUDA_ERROR_NOT_FOUND", "there is no such name"},
    {kErrorNotReady, "CUDA_ERROR_NOT_READY", "not done yet"},
    {kErrorIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "memory that is not there was touched"},
    {kErrorContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is no more"},
    {kErrorHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "the memory is known already"},
    {kErrorHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "the memory is not known"},
    {kErrorNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "not allowed here"},
    {kErrorNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {kErrorStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not while a stream is captured"},
    {kErrorStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an earlier error has spoilt the capture"},
    {kErrorStreamCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would become one"},
    {kErrorStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the capture began in another stream"},
    {kErrorStreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a branch of the capture was never joined"},
    {kErrorStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "the capture would depend on work outside"},
    {kErrorStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the legacy stream would depend on the capture"},
    {kErrorCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT", "the event belongs to a capture"},
};

const Error& error_of(CUresult result) {
  static const Error unknown{kSuccess, "CUDA_ERROR_UNKNOWN", "another error"};
  for (const Error& error : kErrors) {
    if (error.result == result) return error;
  }
  return unknown;
}

}  // namespace

CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = error_of(result).name;
  return kSuccess;
}

CUresult cuGetErrorString(CUresult result, const char** text) {
  *text = error_of(result).text;
  return kSuccess;
}

extern "C" {

/// The newest interface of that name that neither the caller nor this driver is too old for.
SOFTDEV_VISIBLE CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                             uint64_t, CUdriverProcAddressQueryResult* found) {
  const Entry* best = nullptr;
  bool is_name = false;
  for (const Entry& entry : kEntries) {
    if (std::string_view(entry.name) != name) continue;
    is_name = true;
    if (entry.version > version || entry.version > settings().version) continue;
    if (best == nullptr || entry.version > best->version) best = &entry;
  }
  *function = best != nullptr ? best->function : nullptr;
  if (found != nullptr) {
    *found = best != nullptr ? kProcAddressFound
             : is_name       ? kProcAddressVersionNotSufficient
                             : kProcAddressNotFound;
  }
  return best != nullptr || found != nullptr ? kSuccess : kErrorNotFound;
}

SOFTDEV_VISIBLE void softdev_statistics(SoftdevStatistics* out) { *out = statistics(); }

SOFTDEV_VISIBLE uint64_t softdev_statistic(const char* name) {
  const SoftdevStatistics now = statistics();
#define SOFTDEV_FIND(counter) \
  if (std::strcmp(name, #counter) == 0) return now.counter;
  SOFTDEV_STATISTICS(SOFTDEV_FIND)
#undef SOFTDEV_FIND
  return ~uint64_t{0};
}

SOFTDEV_VISIBLE void* softdev_pointer(uint64_t address, size_t bytes) {
  const Range range = addresses().locate(address, bytes, 0);
  return range.valid && range.segments.size() == 1 ? range.segments[0].data : nullptr;
}

SOFTDEV_VISIBLE void softdev_release(uint64_t key) {
  if (checking()) publish({~uint64_t{0}, key}, host_clock());
}

SOFTDEV_VISIBLE void softdev_acquire(uint64_t key) {
  if (checking()) host_learns(published({~uint64_t{0}, key}));
}

SOFTDEV_VISIBLE unsigned softdev_races() { return races_found(); }
SOFTDEV_VISIBLE unsigned softdev_checker_overflows() { return checker_overflows(); }

}  // extern "C"

}  // namespace softdev
