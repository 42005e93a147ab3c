// The way of device memory through pinned host memory, and the two words by which a CUDA stream and
// the host wait for each other (exec::Crossing).
//
// Words are 64 bits in pinned memory, have one writer each and only rise: the stream waits for
// `done` by a memory operation, the host reads `ready` and `over`. So the host releases a stream by
// a plain store, also while another of its threads is inside the driver.
//
// Owns: a CrossingPool its pinned memory, which it keeps for the process's life: to free pinned
// memory is to wait for the device, and a stream of it may be waiting for this host. A crossing
// has one slot of the pool until its stream is past it. Threads: the pool locks inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/exec/device.h"

namespace tutti::engines::cuda {

/// Words of one slot, each in a line of its own. They hold the number of the slot's last use that
/// has come so far.
struct CrossingWords {
  alignas(64) std::atomic<uint64_t> ready;  // written by the stream
  alignas(64) std::atomic<uint64_t> done;   // written by the host
  alignas(64) std::atomic<uint64_t> over;   // written by the stream
};

/// How much of a use the stream was given: nothing, the first point, both; or it gets no second
/// one.
enum class CrossingStage : uint8_t { kNew, kEntered, kLeft, kAbandoned };

/// Pinned memory with words at its begin.
struct CrossingSlot {
  explicit CrossingSlot(drivers::cuda::PinnedMemory pinned);
  CrossingWords& words() const { return *static_cast<CrossingWords*>(memory.data()); }
  /// The stream is past all of the last use.
  bool is_over() const;

  drivers::cuda::PinnedMemory memory;
  uint64_t use = 0;                                       // the number of the last use
  std::atomic<CrossingStage> stage{CrossingStage::kNew};  // of that use
  bool taken = false;  // a crossing has it; under the pool's mutex
};

/// A stream, and the context that must be current to use it.
struct StreamInContext {
  drivers::cuda::CUcontext context = nullptr;
  drivers::cuda::CUstream stream = nullptr;
};

class CrossingPool {
 public:
  explicit CrossingPool(const drivers::cuda::Cuda& cuda) : cuda_(cuda) {}

  const drivers::cuda::Cuda& cuda() const { return cuda_; }

  /// One with so much room behind its words, that no stream uses any more. A context is current.
  Result<CrossingSlot*> take(uint64_t bytes);
  void give_back(CrossingSlot* slot);

 private:
  CrossingSlot* find(uint64_t bytes);

  const drivers::cuda::Cuda& cuda_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CrossingSlot>> slots_;  // under mutex_
};

class CudaCrossing final : public exec::Crossing {
 public:
  /// The stream's context is current. The pool outlives the crossing.
  static Result<std::shared_ptr<exec::Crossing>> create(CrossingPool& pool, StreamInContext where,
                                                        const exec::DevicePieces& input,
                                                        const exec::DevicePieces& output);
  CudaCrossing(const CudaCrossing&) = delete;
  CudaCrossing& operator=(const CudaCrossing&) = delete;
  ~CudaCrossing() override;

  bool is_open() const override;
  void release() override;
  bool is_over() const override;
  std::byte* input() const override { return input_; }
  std::byte* output() const override { return output_; }
  Status enter() override;
  Status leave() override;

 private:
  CudaCrossing(CrossingPool& pool, CrossingSlot* slot, StreamInContext where)
      : cuda_(pool.cuda()), pool_(pool), slot_(slot), where_(where) {}

  Status put_leave();
  void abandon();

  const drivers::cuda::Cuda& cuda_;
  CrossingPool& pool_;
  CrossingSlot* const slot_;
  const StreamInContext where_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  drivers::cuda::CopyBatch copies_in_, copies_out_;
};

}  // namespace tutti::engines::cuda
