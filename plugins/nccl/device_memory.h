// Tells memory that only a GPU can read from memory of the host, where a CUDA driver is in use.
//
// Threads: any. Nothing is loaded: until the program has libcuda every address is the host's. Who
// calls looks whether it has: when a communicator is made, and then every 10 ms at most.
#pragma once

namespace tutti::nccl {

bool is_device_memory(const void* address);

/// The device of the calling thread's CUDA context, or 0.
int current_device();

}  // namespace tutti::nccl
