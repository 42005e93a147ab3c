// Streams, events, and what is put into a stream: lists of copies, and of operations on words.
//
// Threads: a list has one user at a time; an event or stream may be used by any thread. Contexts:
// the stream's must be current (ContextScope). Nothing here but the destructor of a stream waits
// for a device or blocks the host; the lists keep their memory, so that a list that is used again
// allocates nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

/// Whether it is the legacy default stream, which waits for all blocking streams of its context and
/// they for it. A wait in one of them for what comes behind it in the other never ends.
inline bool is_legacy_stream(CUstream stream) {
  return stream == nullptr || reinterpret_cast<uintptr_t>(stream) == kStreamLegacy;
}

/// Whether what is put into the stream goes into a graph instead. kInvalidUsage: its capture has
/// failed, or it is the legacy stream and one that it waits for is captured.
Result<bool> is_captured(const Cuda& cuda, CUstream stream);

/// As the driver counts it: the lower, the more urgent.
Result<int> priority_of(const Cuda& cuda, CUstream stream);

/// A number that no other stream of the process has, nor a later one of its handle. 0: a default
/// stream, of which each context or thread has one under the same handle, or the driver does not
/// say.
uint64_t identity_of(const Cuda& cuda, CUstream stream);

/// A stream of Tutti's own, of the context that is current when it is made. It neither waits for
/// the legacy stream nor the other way round. The destructor waits for nothing: what was put into
/// it still runs.
class CudaStream {
 public:
  /// `priority`: as priority_of(); 0 is the least urgent.
  static Result<CudaStream> create(const Cuda& cuda, int priority = 0);
  CudaStream(CudaStream&& other) noexcept
      : cuda_(other.cuda_), stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&&) = delete;
  ~CudaStream();

  CUstream get() const { return stream_; }
  /// Whether all that was put into it is done; what failed in it is an error here.
  Result<bool> is_done() const;
  /// Blocks the host until it is: for tests and for the end of things.
  Status synchronize() const;

 private:
  CudaStream(const Cuda& cuda, CUstream stream) : cuda_(&cuda), stream_(stream) {}

  const Cuda* cuda_;
  CUstream stream_;
};

/// A point in a stream that other streams of this process can wait for. Without a time. Unlike
/// words in memory, events are known to the driver: streams that share a hardware queue are safe.
class CudaEvent {
 public:
  static Result<CudaEvent> create(const Cuda& cuda);
  CudaEvent(CudaEvent&& other) noexcept
      : cuda_(other.cuda_), event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent();

  CUevent get() const { return event_; }
  /// Puts the event behind all that the stream holds now; the point before is forgotten.
  Status record(CUstream stream) const;
  /// All that is put into the stream from now on comes behind what record() saw last. An event that
  /// was never recorded is done.
  Status make_wait(CUstream stream) const;
  Result<bool> is_done() const;
  /// The same of a captured stream, where these are steps of the graph: whenever it is launched, it
  /// records the event, or waits for what was recorded last before. The graph does not keep the
  /// event: it must live as long.
  Status record_outside(CUstream stream) const;
  Status make_wait_outside(CUstream stream) const;

 private:
  CudaEvent(const Cuda& cuda, CUevent event) : cuda_(&cuda), event_(event) {}

  const Cuda* cuda_;
  CUevent event_;
};

/// Copies that may run in any order and at once. As a whole they are in the stream's order: behind
/// what is in it, before what is put into it later. So a word that says "the data is there" belongs
/// into a list, or operation, behind this one, never into it.
class CopyBatch {
 public:
  /// Addresses of device memory or of host memory that the driver knows (pinned). A source is read
  /// when the stream gets there. `crosses`: one end is not on the stream's device.
  void add(CUdeviceptr target, CUdeviceptr source, size_t bytes, bool crosses = false);
  void clear();
  size_t size() const { return bytes_.size(); }
  /// How many of them cross.
  size_t crossing() const { return size() - within_; }

  /// One call of the driver where it has one for many copies (12.8) and the stream takes it:
  /// neither the legacy one nor one that is captured. Otherwise one call for each copy. Empty: no
  /// call. The list stays as it is. After an error some of the copies may be in the stream.
  ///
  /// The driver is told that copies which cross should leave the multiprocessors to others, and
  /// that of copies within the device if `engines_alone`: there a copy engine has a twentieth of
  /// the multiprocessors' rate, and drivers from 13.1 on follow the hint. A single copy, which the
  /// driver's call for one cannot be told about, is a list of one then.
  Status submit(const Cuda& cuda, CUstream stream, bool engines_alone = false);
  /// Only the copy of that number, counted from 0, by a call of its own.
  Status submit_one(const Cuda& cuda, CUstream stream, size_t number) const;

 private:
  Status submit_together(const Cuda& cuda, CUstream stream, bool engines_alone);
  Status submit_one_by_one(const Cuda& cuda, CUstream stream) const;

  // Those within the device are before those that cross.
  std::vector<CUdeviceptr> targets_;
  std::vector<CUdeviceptr> sources_;
  std::vector<size_t> bytes_;
  size_t within_ = 0;
};

/// Operations of a stream on words of device memory, or of host memory that the driver knows, in
/// the order in which they were added. A write comes behind all that the stream did before, as
/// others see it. Addresses are aligned to the word. Words of 64 bits need
/// DeviceFacts::memory_ops_64.
///
/// A wait compares cyclically: it ends when word - value, as a signed number, is >= 0. The stream
/// stops there, and with it whatever shares its hardware queue: only what does not come behind it
/// may be what ends the wait.
class MemoryOps {
 public:
  void wait_at_least_32(CUdeviceptr word, uint32_t value) { add(kWaitValue32, word, value); }
  void wait_at_least_64(CUdeviceptr word, uint64_t value) { add(kWaitValue64, word, value); }
  void write_32(CUdeviceptr word, uint32_t value) { add(kWriteValue32, word, value); }
  void write_64(CUdeviceptr word, uint64_t value) { add(kWriteValue64, word, value); }
  void clear() {
    operations_.clear();
    waits_ = 0;
  }
  size_t size() const { return operations_.size(); }
  /// How many of them are waits.
  size_t waits() const { return waits_; }

  /// As few calls as possible, in order. Empty: none. The list stays as it is. After an error the
  /// first of several calls may be in the stream.
  Status submit(const Cuda& cuda, CUstream stream);

 private:
  void add(CUstreamBatchMemOpType operation, CUdeviceptr word, uint64_t value);

  std::vector<CUstreamBatchMemOpParams> operations_;
  size_t waits_ = 0;
};

}  // namespace tutti::drivers::cuda
