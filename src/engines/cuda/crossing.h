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
#include <utility>
#include <vector>

#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/exec/staging.h"

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

/// A slot of the pool as a call has it: host memory for its input and output, and the copies
/// between them and the device.
class CrossingCopies {
 public:
  /// The streams' context is current. The pool lives longer.
  static Result<std::unique_ptr<CrossingCopies>> create(CrossingPool& pool,
                                                        const exec::DevicePieces& input,
                                                        const exec::DevicePieces& output);
  CrossingCopies(const CrossingCopies&) = delete;
  CrossingCopies& operator=(const CrossingCopies&) = delete;
  ~CrossingCopies() { pool_.give_back(slot_); }

  const drivers::cuda::Cuda& cuda() const { return pool_.cuda(); }
  CrossingSlot& slot() const { return *slot_; }
  CrossingWords& words() const { return slot_->words(); }
  std::byte* input() const { return input_; }
  std::byte* output() const { return output_; }
  Status copy_in(drivers::cuda::CUstream stream) { return in_.submit(cuda(), stream); }
  Status copy_out(drivers::cuda::CUstream stream) { return out_.submit(cuda(), stream); }

 private:
  CrossingCopies(CrossingPool& pool, CrossingSlot* slot) : pool_(pool), slot_(slot) {}

  CrossingPool& pool_;
  CrossingSlot* const slot_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  drivers::cuda::CopyBatch in_, out_;
};

class CudaCrossing final : public exec::Crossing,
                           public exec::Fence,
                           public std::enable_shared_from_this<CudaCrossing> {
 public:
  /// The stream's context is current. The pool outlives the crossing.
  static Result<std::shared_ptr<exec::Crossing>> create(CrossingPool& pool, StreamInContext where,
                                                        const exec::DevicePieces& input,
                                                        const exec::DevicePieces& output);
  CudaCrossing(const CudaCrossing&) = delete;
  CudaCrossing& operator=(const CudaCrossing&) = delete;
  ~CudaCrossing() override;

  std::shared_ptr<exec::Fence> fence() override { return shared_from_this(); }
  void skip() override { release(); }
  bool is_open() const override;
  void release() override;
  bool is_over() const override;
  std::byte* input() const override { return copies_->input(); }
  std::byte* output() const override { return copies_->output(); }
  Status enter() override;
  Status leave() override;

 private:
  CudaCrossing(std::unique_ptr<CrossingCopies> copies, StreamInContext where)
      : cuda_(copies->cuda()), copies_(std::move(copies)), slot_(&copies_->slot()), where_(where) {}

  Status put_leave();
  void abandon();

  const drivers::cuda::Cuda& cuda_;
  const std::unique_ptr<CrossingCopies> copies_;
  CrossingSlot* const slot_;
  const StreamInContext where_;
};

}  // namespace tutti::engines::cuda
