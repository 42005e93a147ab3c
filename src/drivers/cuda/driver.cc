#include "src/drivers/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace tutti::drivers::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status too_old(const std::string& has) {
  return Status::unsupported(
      fmt::format("the CUDA driver is too old: it {}, and Tutti needs one that supports CUDA {} or "
                  "newer; update the driver",
                  has, version_text(kLeastDriverVersion)));
}

/// Why the driver does not work here, with what can be done about it.
Status unusable(const Status& reason, CUresult result) {
  const char* advice = "see whether nvidia-smi works, and whether /dev/nvidia* may be opened";
  if (result == kErrorNoDevice) advice = "there is no GPU, or CUDA_VISIBLE_DEVICES hides it";
  return Status::unsupported(fmt::format("the CUDA driver is there and cannot be used: {} ({})",
                                         reason.message(), advice));
}

Code code_of(CUresult result) {
  if (result == kErrorNotSupported) return Code::kUnsupported;
  const bool of_capture =
      result >= kErrorStreamCaptureUnsupported && result <= kErrorStreamCaptureImplicit;
  return of_capture ? Code::kInvalidUsage : Code::kSystemError;
}

/// How many libraries this process has ever loaded.
uint64_t libraries_loaded() {
  uint64_t count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uint64_t*>(result) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

}  // namespace

Status Cuda::error_status(CUresult result, std::string_view function) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (call.cuGetErrorName(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (call.cuGetErrorString(result, &text) != kSuccess || text == nullptr) text = "no description";
  return {code_of(result),
          fmt::format("{} failed: {} ({}): {}", function, name, static_cast<int>(result), text)};
}

Status Cuda::resolve(GetProcAddress get) {
  CUdriverProcAddressQueryResult found = kProcAddressNotFound;
  CUresult (*get_version)(int*) = nullptr;
  get("cuDriverGetVersion", reinterpret_cast<void**>(&get_version), 2020, 0, &found);
  if (get_version == nullptr || get_version(&version_) != kSuccess) {
    return Status::unsupported("the CUDA driver does not say its version; reinstall it");
  }
  if (version_ < kLeastDriverVersion) return too_old("supports CUDA " + version_text(version_));
  const char* missing = nullptr;
#define TUTTI_CUDA_RESOLVE(name, version, parameters)                   \
  get(#name, reinterpret_cast<void**>(&call.name), version, 0, &found); \
  if (call.name == nullptr && missing == nullptr) missing = #name;
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_RESOLVE)
#undef TUTTI_CUDA_RESOLVE
#define TUTTI_CUDA_RESOLVE_OPTIONAL(name, version, parameters) \
  get(#name, reinterpret_cast<void**>(&call.name), version, 0, &found);
  TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_RESOLVE_OPTIONAL)
#undef TUTTI_CUDA_RESOLVE_OPTIONAL
  if (missing != nullptr) {
    return Status::unsupported(fmt::format("the CUDA driver {} has no {}; update or reinstall it",
                                           version_text(version_), missing));
  }
  if (version_ >= 13000) {
    get("cuMemcpyBatchAsync", reinterpret_cast<void**>(&copy_batch_130_), 13000, 0, &found);
  } else if (version_ >= 12080) {
    get("cuMemcpyBatchAsync", reinterpret_cast<void**>(&copy_batch_128_), 12080, 0, &found);
  }
  return {};
}

Status Cuda::initialize() {
  const CUresult initialized = call.cuInit(0);
  if (initialized != kSuccess) return unusable(error_status(initialized, "cuInit"), initialized);
  const CUresult counted = call.cuDeviceGetCount(&devices_);
  if (counted != kSuccess) return unusable(error_status(counted, "cuDeviceGetCount"), counted);
  if (devices_ < 1) {
    return unusable(Status::unsupported("cuDeviceGetCount counts no device"), kErrorNoDevice);
  }
  return {};
}

Result<Cuda> Cuda::load(const std::string& library) {
  // Only the names that are asked for are used, so no other library gets to see them.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status::unsupported(
        fmt::format("there is no CUDA driver: {}", why != nullptr ? why : library));
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  if (get == nullptr) return too_old("has no cuGetProcAddress_v2");
  Cuda cuda;
  if (Status resolved = cuda.resolve(get); !resolved.ok()) return resolved;
  if (Status initialized = cuda.initialize(); !initialized.ok()) return initialized;
  return cuda;
}

const Result<Cuda>& find() {
  // Never destroyed: threads may call the driver until the process ends.
  static const Result<Cuda>* const found = new Result<Cuda>(Cuda::load(kDriverLibrary));
  return *found;
}

bool is_loaded_in_process() {
  // tidy: allow mutable (what the dynamic linker knows is the process's)
  static std::atomic<bool> loaded{false};
  // tidy: allow mutable (as above)
  static std::atomic<uint64_t> looked_at{0};
  if (loaded.load(std::memory_order_relaxed)) return true;
  const uint64_t now = libraries_loaded();
  if (now == looked_at.load(std::memory_order_relaxed)) return false;
  // The reference is kept: the answer stays true.
  const bool found = dlopen(kDriverLibrary, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
  if (found) loaded.store(true, std::memory_order_relaxed);
  looked_at.store(now, std::memory_order_relaxed);
  return found;
}

std::string describe() {
  const Result<Cuda>& found = find();
  if (!found.ok()) return std::string(found.status().message());
  const Cuda& cuda = found.value();
  int multicast = 0;
  for (int i = 0; i < cuda.devices(); ++i) {
    CUdevice device = 0;
    int has = 0;
    const bool known = cuda.call.cuDeviceGet(&device, i) == kSuccess &&
                       cuda.call.cuDeviceGetAttribute(&has, kDeviceMulticast, device) == kSuccess;
    if (known && has != 0 && cuda.call.cuMulticastCreate != nullptr) ++multicast;
  }
  return fmt::format("CUDA {}, {} device{}, {} with multicast", version_text(cuda.version()),
                     cuda.devices(), cuda.devices() == 1 ? "" : "s",
                     multicast == 0 ? "none" : std::to_string(multicast));
}

}  // namespace tutti::drivers::cuda
