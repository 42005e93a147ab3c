// A program that uses a driver's interface directly, on a board or on the software device: the
// library's own table, the functions that only tests need, and the hooks, where there are any.
//
// Threads: one makes it; after that any. Errors: of open(), those of Cuda::load().
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/driver.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "tests/software_device/hooks.h"
#include "tests/software_device/more_api.h"

namespace softdev {

using tutti::Result;
using tutti::Status;
namespace cuda = tutti::drivers::cuda;

/// Null on a real driver, but for what open() fills.
struct Hooks {
  decltype(&softdev_statistics) statistics = nullptr;
  decltype(&softdev_register_kernel) register_kernel = nullptr;
  decltype(&softdev_pointer) pointer = nullptr;
  decltype(&softdev_release) release = nullptr;
  decltype(&softdev_acquire) acquire = nullptr;
  decltype(&softdev_races) races = nullptr;
  decltype(&softdev_checker_overflows) checker_overflows = nullptr;
};

class Client {
 public:
  /// Loads and initializes a driver: by the name of all drivers, or by a path.
  static Result<Client> open(const std::string& library = "libcuda.so.1") {
    Result<cuda::Cuda> loaded = cuda::Cuda::load(library);
    if (!loaded.ok()) return loaded.status();
    Client client(std::move(loaded).value());
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto get = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
    CUdriverProcAddressQueryResult found = kProcAddressNotFound;
#define SOFTDEV_RESOLVE(name, version, parameters)                             \
  get(#name, reinterpret_cast<void**>(&client.more.name), version, 0, &found); \
  if (client.more.name == nullptr) return Status::unsupported("there is no " #name);
    SOFTDEV_MORE_FUNCTIONS(SOFTDEV_RESOLVE)
#undef SOFTDEV_RESOLVE
    client.hooks.statistics = find<decltype(&softdev_statistics)>(handle, "softdev_statistics");
    client.hooks.register_kernel =
        find<decltype(&softdev_register_kernel)>(handle, "softdev_register_kernel");
    client.hooks.pointer = find<decltype(&softdev_pointer)>(handle, "softdev_pointer");
    client.hooks.release = find<decltype(&softdev_release)>(handle, "softdev_release");
    client.hooks.acquire = find<decltype(&softdev_acquire)>(handle, "softdev_acquire");
    client.hooks.races = find<decltype(&softdev_races)>(handle, "softdev_races");
    client.hooks.checker_overflows =
        find<decltype(&softdev_checker_overflows)>(handle, "softdev_checker_overflows");
    return client;
  }

  const cuda::Cuda& cuda() const { return cuda_; }
  const DriverFunctions& call() const { return cuda_.call; }
  MoreFunctions more;
  Hooks hooks;

  bool on_software_device() const { return hooks.statistics != nullptr; }
  /// All zeros on a real driver.
  SoftdevStatistics statistics() const {
    SoftdevStatistics now{};
    if (hooks.statistics != nullptr) hooks.statistics(&now);
    return now;
  }

 private:
  explicit Client(cuda::Cuda loaded) : cuda_(std::move(loaded)) {}

  template <class Function>
  static Function find(void* handle, const char* name) {
    return reinterpret_cast<Function>(dlsym(handle, name));
  }

  cuda::Cuda cuda_;
};

}  // namespace softdev
