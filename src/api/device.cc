#include "src/api/device.h"

#include "src/registry/devices.h"

namespace tutti::api {

exec::Device& device() { return registry::device(); }

Status check_device_stream(tuttiStream_t stream) {
  if (stream.reserved != 0) return Status::invalid_argument("stream.reserved must be 0");
  if (!may_have_device_memory()) look_for_device_memory();
  if (may_have_device_memory()) return {};
  return Status::invalid_usage(
      "a CUDA stream in a process that has not loaded the CUDA driver (libcuda.so.1)");
}

Result<std::unique_ptr<exec::DeviceAllocation>> allocate_for(tuttiStream_t stream, size_t bytes) {
  return device().allocate(stream.handle, bytes);
}

void look_for_device_memory() {
  if (device().is_present()) device_memory_seen.store(true, std::memory_order_relaxed);
}

Result<bool> is_device_memory(const void* address) {
  if (address == nullptr) return false;
  const Result<exec::MemoryPlace> place = device().place_of(address);
  if (!place.ok()) return place.status();
  return place.value() == exec::MemoryPlace::kDevice;
}

}  // namespace tutti::api
