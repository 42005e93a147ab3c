#include "src/operation/buffers.h"

#include <algorithm>

namespace tutti::operation {

bool CallBuffer::has_bytes() const { return end() > 0; }

uint64_t CallBuffer::end() const {
  uint64_t end = 0;
  for (const Share& share : shares) {
    if (share.bytes > 0) end = std::max(end, share.offset + share.bytes);
  }
  return end;
}

Status check_host_memory(exec::Device& device, const CallBuffer& buffer) {
  if (buffer.use == BufferUse::kScalar || buffer.memory == nullptr || !buffer.has_bytes()) {
    return {};
  }
  const Result<exec::MemoryPlace> place = device.place_of(buffer.memory);
  if (!place.ok()) return place.status();
  if (place.value() != exec::MemoryPlace::kDevice) return {};
  return Status::invalid_argument(buffer.call + ": " + buffer.name +
                                  " is device memory: pass the CUDA stream that it belongs to "
                                  "(tuttiStreamCuda), or copy it to the host");
}

Status check_host_memory(exec::Device& device, std::span<const CallBuffer> buffers) {
  for (const CallBuffer& buffer : buffers) {
    if (Status status = check_host_memory(device, buffer); !status.ok()) return status;
  }
  return {};
}

Status check_streams_memory(exec::Device& device, std::span<const CallBuffer> buffers) {
  for (const CallBuffer& buffer : buffers) {
    if (buffer.use == BufferUse::kScalar || !buffer.has_bytes()) continue;
    const Result<exec::MemoryPlace> place = device.place_of(buffer.memory);
    if (!place.ok()) return place.status();
    if (place.value() != exec::MemoryPlace::kHost) continue;
    return Status::invalid_argument(
        buffer.call + " on a CUDA stream: " + buffer.name +
        " is ordinary host memory, which copy engines cannot reach: pass device memory or pinned "
        "memory, or use a BLOCKING or HOST stream on all ranks");
  }
  return {};
}

}  // namespace tutti::operation
