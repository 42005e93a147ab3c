// Device memory in the place of a rank's host buffers: a block goes to the device before its call,
// guards included, and comes back after it, so that the same checks look at it.
//
// Owns: a context's share, one piece of device memory from whose front blocks are taken, and two
// streams. Threads: one. Errors: open() says why there is no device; later ones end the program,
// since a test can do nothing about them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "include/tutti/tutti.h"
#include "tests/random/memory.h"

namespace tutti::random_calls {

class DeviceMirror {
 public:
  /// So much may calls on device memory take, of a batch and in all of their blocks.
  static constexpr uint64_t kBytes = 64 << 20;

  /// Device `index` modulo how many there are. Null and `why` if there is none.
  static std::unique_ptr<DeviceMirror> open(int index, std::string& why);
  /// The device that open() takes. There is one.
  static int device_of(int index);
  virtual ~DeviceMirror() = default;

  virtual tuttiStream_t stream(size_t index) const = 0;
  /// Until the stream is past all that it holds.
  virtual void synchronize(size_t index) = 0;
  /// Where on the device the block's first byte lies now; its contents are there.
  virtual std::byte* push(const Block& block) = 0;
  /// The same at a place of registered(), which is equal on ranks that push alike.
  virtual std::byte* push_at(uint64_t place, const Block& block) = 0;
  /// kBytes that push() does not use.
  virtual std::byte* registered() const = 0;
  /// Gets its contents, and that of its guards, back.
  virtual void pull(const Block& block, const std::byte* device) = 0;
  /// All that was taken is free again.
  virtual void reset() = 0;
};

}  // namespace tutti::random_calls
