// Kernels: a module is loaded from an image (a fat binary, or PTX as text that ends in a zero), and
// its functions are launched into streams.
//
// Threads: launch() from any; load and function() one at a time. Contexts: the one in which the
// module is to be, or is, must be current. Ending a module may wait for the device. Streams of
// others, or the caller's, may be captured meanwhile.
#pragma once

#include <utility>

#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

class CudaModule {
 public:
  /// `image` stays where it is as long as the module. kUnsupported: the driver says that it does
  /// not run here, now or ever. Other errors may be of the moment.
  static Result<CudaModule> load(const Cuda& cuda, const void* image);
  CudaModule(CudaModule&& other) noexcept
      : cuda_(other.cuda_), module_(std::exchange(other.module_, nullptr)) {}
  CudaModule& operator=(CudaModule&&) = delete;
  ~CudaModule();

  /// kUnsupported: the module has none of that name. Ready to run: a driver that loads lazily loads
  /// it now, since to load it at its first launch may be to wait for all streams of the device.
  Result<CUfunction> function(const char* name) const;
  /// How many of its blocks of so many threads a multiprocessor holds at once.
  Result<int> blocks_at_once(CUfunction function, uint32_t threads) const;
  /// Puts it into the stream: so many blocks of so many threads, with one parameter, which is
  /// copied.
  Status launch(CUfunction function, uint32_t blocks, uint32_t threads, CUstream stream,
                const void* parameter) const;

 private:
  CudaModule(const Cuda& cuda, CUmodule module) : cuda_(&cuda), module_(module) {}

  const Cuda* cuda_;
  CUmodule module_;
};

}  // namespace tutti::drivers::cuda
