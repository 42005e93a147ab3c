// The kind of device whose memory and streams the C API takes.
//
// Threads: any. Errors: those of exec::Device.
#pragma once

#include <atomic>
#include <memory>

#include "include/tutti/tutti.h"
#include "src/base/status.h"
#include "src/exec/device.h"

namespace tutti::api {

// tidy: allow mutable (a fact about the process: its driver is loaded once and stays)
inline constinit std::atomic<bool> device_memory_seen{false};

exec::Device& device();

inline bool is_of_device(tuttiStream_t stream) { return stream.kind == tuttiStreamDevice; }
/// OK, or why device streams cannot be used.
Status check_device_stream(tuttiStream_t stream);
/// Memory of the stream's device.
Result<std::unique_ptr<exec::DeviceAllocation>> allocate_for(tuttiStream_t stream, size_t bytes);

/// Whether device memory is possible in this process, as far as was known when it was last looked
/// for. One load.
inline bool may_have_device_memory() { return device_memory_seen.load(std::memory_order_relaxed); }
/// Where a communicator is made, and a stream of a device is used.
void look_for_device_memory();
/// Whether it lies in a device's memory; null does not.
Result<bool> is_device_memory(const void* address);

}  // namespace tutti::api
