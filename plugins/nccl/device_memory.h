// A program's memory as the CUDA driver knows it, where one is in use, and so where its calls run.
//
// Threads: any. Nothing is loaded: until the program has libcuda every address is the host's. It is
// looked for when a communicator is made, and then by calls, every 10 ms at most.
#pragma once

#include <span>

#include "plugins/nccl/abi.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// Whether only a GPU can read it. Managed and pinned memory is the host's too.
bool is_device_memory(const void* address);

/// Where a call with these buffers runs; null stands for none. On the stream if the driver knows
/// one of them, pinned memory included: what fills it may be in the stream. Without buffers on the
/// stream as well, if it may be one. A call on ordinary memory is complete when it returns: a GPU
/// cannot have to do with it.
tuttiStream_t stream_for(std::span<const void* const> buffers, cudaStream_t stream);

/// Makes device 0 current in the calling thread for as long as this lives, if the process uses CUDA
/// and the thread has no current device: that is what CUDA's runtime, and so NCCL, takes it to
/// mean.
class DefaultDevice {
 public:
  DefaultDevice();
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  bool entered_ = false;
};

/// The device of the calling thread's CUDA context, or 0.
int current_device();
bool has_current_device();
/// How many devices the driver has; -1 without a driver.
int count_devices();

}  // namespace tutti::nccl
