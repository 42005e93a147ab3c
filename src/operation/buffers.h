// The buffers of an operation: which bytes of the caller's memory it reads and writes, and whether
// they lie where what runs it can reach them.
//
// Threads: a value; pure functions but for what a driver says of an address. Errors:
// kInvalidArgument names the call and the buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/exec/device.h"

namespace tutti::operation {

/// A part of a buffer that holds something, in bytes.
struct Share {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

enum class BufferUse : uint8_t {
  kInput,
  kOutput,
  kScalar,  // an input of one element, read where it lies
};

struct CallBuffer {
  std::string call, name;  // in messages: "all_reduce", "send"
  const void* memory = nullptr;
  std::vector<Share> shares;
  BufferUse use = BufferUse::kInput;
  size_t stream = 0;  // which of the operation's streams it belongs to

  bool has_bytes() const;
  /// Of its last share.
  uint64_t end() const;
};

/// kInvalidArgument: one of them is device memory, which needs a stream of its device.
Status check_host_memory(exec::Device& device, std::span<const CallBuffer> buffers);
/// The same of one buffer.
Status check_host_memory(exec::Device& device, const CallBuffer& buffer);
/// kInvalidArgument: one of them is memory that a stream can neither copy from nor to.
Status check_streams_memory(exec::Device& device, std::span<const CallBuffer> buffers);

}  // namespace tutti::operation
