// The CUDA driver, found when the program runs: nothing of CUDA is needed to build or to start.
//
// Only the driver's own interface (libcuda) is used, never the runtime library. Where there is no
// driver, or none that works, everything else of Tutti works, and find() says why in a sentence.
//
// Owns: the loaded library, which is never unloaded. Threads: any. Errors: Status with the driver's
// name of the error and the function that returned it. No function here waits for a device.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/drivers/cuda/functions.h"

namespace tutti::drivers::cuda {

/// Constants and types of the driver's interface are used by their names all over this folder.
using namespace api;  // NOLINT(build/namespaces)

/// The least driver: the first one that is asked for functions by version (cuGetProcAddress_v2).
inline constexpr int kLeastDriverVersion = 12000;

/// A loaded driver that cuInit() has initialized.
class Cuda {
 public:
  /// Loads `library` (a file name or a path) and initializes it. kUnsupported: absent, too old,
  /// forbidden, or without a device; the message says which.
  static Result<Cuda> load(const std::string& library);

  /// The functions as the driver has them: cuda.call.cuEventQuery(event). Their callers turn the
  /// result into a Status with check().
  DriverFunctions call;

  /// 1000 * major + 10 * minor of the CUDA that the driver supports.
  int version() const { return version_; }
  int devices() const { return devices_; }

  /// OK, or error_status(). Costs a comparison where nothing failed.
  Status check(CUresult result, std::string_view function) const {
    return result == kSuccess ? Status() : error_status(result, function);
  }
  /// kUnsupported for what the device or driver cannot do, kInvalidUsage for what a captured stream
  /// may not hold, kSystemError for the rest.
  Status error_status(CUresult result, std::string_view function) const;

  /// At most one of them is not null.
  CopyBatch128 copy_batch_128() const { return copy_batch_128_; }
  CopyBatch130 copy_batch_130() const { return copy_batch_130_; }

 private:
  Cuda() = default;
  Status resolve(GetProcAddress get);
  Status initialize();

  int version_ = 0;
  int devices_ = 0;
  CopyBatch128 copy_batch_128_ = nullptr;
  CopyBatch130 copy_batch_130_ = nullptr;
};

/// The driver of this process, loaded and initialized by the first call (which may take a second);
/// later ones return what the first one found. Call it where device memory is asked for: where
/// is_loaded_in_process(), or where a user names a device.
const Result<Cuda>& find();

/// Whether somebody in this process has loaded the driver: a program that passes pointers to device
/// memory has. Loads nothing and reads no file unless a library was loaded since the last call.
/// Costs one load once the answer is yes; before, a walk that ends at the first library (tens of
/// nanoseconds).
bool is_loaded_in_process();

/// A line for people about find(): version and devices, or why there are none.
std::string describe();

}  // namespace tutti::drivers::cuda
