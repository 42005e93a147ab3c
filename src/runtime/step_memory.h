// Memory for the inputs of calls that may have to run again, and the stream that they go on: memory
// of the host beside a HOST stream, or of the device that a stream belongs to.
//
// Owns:    the memory, until those who have a piece of it let go; not the stream of a device.
// Units:   bytes. Threads: one at a time.
// Errors:  throws Error; allocate() and zeros() throw std::bad_alloc where memory runs out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "tutti/tutti.h"

namespace tutti::runtime {

class StepMemory {
 public:
  using Piece = std::shared_ptr<std::byte>;

  /// `stream`: BLOCKING, or one of the device of `comm`. Of the latter a communicator of this rank
  /// alone is made, whose calls copy on the device, whatever becomes of `comm`.
  static std::unique_ptr<StepMemory> open(tuttiComm_t comm, tuttiStream_t stream);
  virtual ~StepMemory() = default;

  /// On which the calls go.
  virtual tuttiStream_t stream() const = 0;
  virtual Piece allocate(int64_t bytes) = 0;
  /// At least so many zeros, which nobody may change.
  virtual Piece zeros(int64_t bytes) = 0;
  /// Before calls that are made later. The source must stay as calls' inputs must.
  virtual void copy(std::byte* to, const void* from, int64_t bytes) = 0;
  /// The host changes what lies there, piece by piece; all but the last have whole words of 8
  /// bytes. No call uses it.
  using Work = std::function<void(void* piece, int64_t bytes)>;
  virtual void change(void* memory, int64_t bytes, const Work& work) = 0;
};

}  // namespace tutti::runtime
