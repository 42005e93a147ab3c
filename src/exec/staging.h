// The way of a call whose buffers lie in device memory through the host, *host staging*: the stream
// copies the input into host memory and says so; the host runs the call there; the stream, which
// has been waiting, copies the output back. Nothing of it runs on the device's processors.
//
// Owns:    a host staging its copies. Threads: of a Fence one thread asks and releases, another one
//          enqueues. Errors: kUnsupported, kInvalidUsage for what the stream cannot hold,
//          kSystemError where memory runs out. Nothing here waits for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// A copy that a stream does without the host, between memory of devices or pinned memory.
struct DeviceCopy {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  uint64_t bytes = 0;
  bool crosses = false;  // one end is not on the stream's device
};

/// Copies that nothing of the host's stands for, and what lives until the stream is past them: of a
/// captured call, as long as its graph.
struct DeviceCopies {
  std::vector<DeviceCopy> copies;
  std::shared_ptr<const void> held;
};

/// All that a call reads, or writes, in device memory. `bytes`: of the host's copy, which may have
/// gaps. `direct`: beside the pieces.
struct DevicePieces {
  std::vector<DevicePiece> pieces;
  uint64_t bytes = 0;
  DeviceCopies direct{};
};

class HostStaging {
 public:
  virtual ~HostStaging() = default;
  /// Of the next time that the stream comes: there is one, but for each run of a captured call a
  /// new one, which is open. A run's releases when it goes. Throws where there is no memory.
  virtual std::shared_ptr<Fence> fence() = 0;
  /// The stream goes on, in a run without a fence.
  virtual void skip() = 0;
  /// The host's copies. They stay until the fence is over; of a captured call, as long as this.
  virtual std::byte* input() const = 0;
  virtual std::byte* output() const = 0;
  /// Puts into the stream: the input's copy, and the first point. All of a group enter before one
  /// leaves, since a stream stops where one leaves.
  virtual Status enter() = 0;
  /// Puts into the stream: the second point, and the copy of the output. After an error of it, or
  /// without it, the stream does not wait.
  virtual Status leave() = 0;
};

}  // namespace tutti::exec
