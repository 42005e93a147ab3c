// A vendor's devices as the layers above need them: to tell device memory from the host's, and to
// let a stream of the device and the host wait for each other. Engines implement it
// (src/engines/<vendor>); nothing here is any vendor's.
//
// A *crossing* is the way of a call whose buffers lie in device memory through the host: the
// stream copies the input into host memory and says so; the host runs the call there; the stream,
// which has been waiting, copies the output back. Nothing of it runs on the device's processors.
//
// Threads: a Device from any; of a Fence one thread asks and releases, another one enqueues.
// Errors: kUnsupported, kInvalidUsage for what the stream cannot hold, kSystemError where memory
// runs out. Nothing here waits for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::exec {

/// Two points of a device's stream between which the host does a work: the stream comes to the
/// first one, then waits at the second one until it is released.
class Fence {
 public:
  virtual ~Fence() = default;
  /// The stream has come: the work may begin, its input is there.
  virtual bool is_open() const = 0;
  /// The work is done, or it never will be: the stream goes on. Never fails.
  virtual void release() = 0;
  /// After release(): the stream has taken what the work left.
  virtual bool is_over() const = 0;
};

/// A part of a buffer in device memory and its place in the host's copy of the buffer.
struct DevicePiece {
  std::byte* device = nullptr;
  uint64_t offset = 0;  // in the host's copy
  uint64_t bytes = 0;
};

/// All that a call reads, or writes, in device memory. `bytes`: of the host's copy, which may have
/// gaps.
struct DevicePieces {
  std::vector<DevicePiece> pieces;
  uint64_t bytes = 0;
};

class Crossing : public Fence {
 public:
  /// The host's copies. They stay until the fence is over.
  virtual std::byte* input() const = 0;
  virtual std::byte* output() const = 0;
  /// Puts into the stream: the input's copy, and the first point. All of a group enter before one
  /// leaves, since a stream stops where one leaves.
  virtual Status enter() = 0;
  /// Puts into the stream: the second point, and the copy of the output. After an error of it, or
  /// without it, the stream does not wait.
  virtual Status leave() = 0;
};

enum class MemoryPlace : uint8_t { kHost, kDevice };

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// Whether this process can have memory of the device's. As cheap as a load.
  virtual bool is_present() const = 0;
  /// Where the byte lies. Pinned memory is the host's.
  virtual Result<MemoryPlace> place_of(const void* address) const = 0;
  /// `stream` as the vendor has it; null may be one. Enqueues nothing yet.
  virtual Result<std::shared_ptr<Crossing>> cross(void* stream, const DevicePieces& input,
                                                  const DevicePieces& output) = 0;
};

}  // namespace tutti::exec
