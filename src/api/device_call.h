// A call with buffers in device memory, or on a stream of a device: its way to the host's lanes.
//
// Threads: the caller's. Errors: nothing has been enqueued after one of cross().
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/status.h"
#include "src/comm/captured_task.h"
#include "src/comm/task.h"
#include "src/exec/device.h"

namespace tutti::api {

// tidy: allow mutable (a fact about the process: its driver is loaded once and stays)
inline constinit std::atomic<bool> device_memory_seen{false};

/// Memory of the stream's device.
Result<std::unique_ptr<exec::DeviceAllocation>> allocate_for(tuttiStream_t stream, size_t bytes);

/// The streams of a task's transfers, in order; of other work, its one. `places`: of each that is a
/// device's.
struct DeviceStreams {
  std::span<const tuttiStream_t> streams;
  std::span<const exec::StreamPlace> places;
};

using Crossings = std::vector<std::shared_ptr<exec::Crossing>>;

inline bool is_of_device(tuttiStream_t stream) { return stream.kind == tuttiStreamDevice; }
/// OK, or why device streams cannot be used.
Status check_device_stream(tuttiStream_t stream);

/// The stream as any thread can use it. A default stream is of the communicator's device, or where
/// it has none, of the caller's current one.
Result<exec::StreamPlace> place_of(tuttiStream_t stream, const comm::Communicator& communicator);
/// Whether the task is run from device to device by its streams: those of its transfers, in order;
/// one for any other work.
bool is_direct(const comm::Task& task, std::span<const tuttiStream_t> streams);
/// Whether it runs by the engine that its options ask for.
Status check_engine(const comm::Task& task, std::span<const tuttiStream_t> streams);
/// Before a task goes by the host whose options ask for that: the peers are told. An error has
/// failed the communicator.
Status declare_by_host(const comm::Task& task, std::span<const tuttiStream_t> streams);
/// Puts it into the streams. Its handles are told, also of an error.
Status enqueue_direct(comm::Task& task, std::span<const tuttiStream_t> streams);

/// Gives the task host memory in the place of device memory, and one fence for each device stream
/// that it is on.
Result<Crossings> cross(comm::Task& task, const DeviceStreams& on);
/// The same of a call on captured streams, whose task and crossings belong to the graph.
Status cross_captured(comm::CapturedTask& captured, const DeviceStreams& on);

/// Whether some buffer of the work is device memory; such a call needs a device stream.
Status check_host_memory(const comm::Request& request, const comm::Communicator& communicator);
Status check_host_memory(const exec::Transfer& transfer, const comm::Communicator& communicator);
Status check_host_memory(const comm::Access& access, const comm::Communicator& communicator);
/// Whether device memory is possible in this process, as far as was known when it was last looked
/// for. One load.
inline bool may_have_device_memory() { return device_memory_seen.load(std::memory_order_relaxed); }
/// Whether it lies in a device's memory; null does not.
Result<bool> is_device_memory(const void* address);
/// Where a communicator is made, and a stream of a device is used.
void look_for_device_memory();
/// The kind of device whose streams the API takes.
exec::Device& device();

}  // namespace tutti::api
