// A device as the perf tools use it: its memory, a stream, and clocks of the stream itself.
//
// Owns: what makes the device current in the thread that opened it, and the stream. Threads: that
// one. Errors: PerfError. Units: bytes; microseconds of the device's clock.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tutti/tutti.h"

namespace tutti::perf {

class Device {
 public:
  virtual ~Device() = default;
  virtual tuttiStream_t stream() const = 0;
  /// Among those that this process sees, from 0.
  virtual int number() const = 0;
  /// Between this device's memory and the host's, either way; complete when it returns.
  virtual void copy(std::byte* target, const std::byte* source, size_t bytes) = 0;
  /// Waits until the stream has nothing to do.
  virtual void synchronize() = 0;
  /// From here to end_timing() what is put into the stream is timed.
  virtual void begin_timing() = 0;
  /// Waits for it.
  virtual double end_timing_us() = 0;
};

/// `number`: the how-manieth rank of its host wants one; they take turns at the devices there are.
using OpenDevice = std::function<std::unique_ptr<Device>(int number)>;

}  // namespace tutti::perf
