// Tells memory that only a GPU can read from memory of the host, where a CUDA driver is in use.
//
// Threads: any. Nothing is loaded: without libcuda in the process every address is the host's.
#pragma once

namespace tutti::nccl {

/// Finds the driver if the program has loaded it meanwhile. Cheap; called when a communicator is
/// made, because device memory is allocated before it is used.
void look_for_cuda();

bool is_device_memory(const void* address);

/// The device of the calling thread's CUDA context, or 0.
int current_device();

}  // namespace tutti::nccl
