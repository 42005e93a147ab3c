// The way of device memory through pinned host memory, and the two words by which a CUDA stream and
// the host wait for each other (exec::HostStaging).
//
// Words are 64 bits in pinned memory, have one writer each and only rise: the stream waits for
// `done` by a memory operation, the host reads `ready` and `over`. So the host releases a stream by
// a plain store, also while another of its threads is inside the driver.
//
// Owns: a HostStagingPool its pinned memory, which it keeps for the process's life: to free pinned
// memory is to wait for the device, and a stream of it may be waiting for this host. A host staging
// has one slot of the pool until its stream is past it. Threads: the pool locks inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/exec/staging.h"

namespace tutti::engines::cuda {

/// Words of one slot, each in a line of its own. They hold the number of the slot's last use that
/// has come so far.
struct HostStagingWords {
  alignas(64) std::atomic<uint64_t> ready;  // written by the stream
  alignas(64) std::atomic<uint64_t> done;   // written by the host
  alignas(64) std::atomic<uint64_t> over;   // written by the stream
};

/// How much of a use the stream was given: nothing, the first point, both; or it gets no second
/// one.
enum class HostStagingState : uint8_t { kNew, kEntered, kLeft, kAbandoned };

/// Pinned memory with words at its begin.
struct HostStagingSlot : std::enable_shared_from_this<HostStagingSlot> {
  explicit HostStagingSlot(drivers::cuda::PinnedMemory pinned);
  HostStagingWords& words() const { return *static_cast<HostStagingWords*>(memory.data()); }
  /// The stream is past all of the last use.
  bool is_over() const;

  drivers::cuda::PinnedMemory memory;
  uint64_t use = 0;                                             // the number of the last use
  std::atomic<HostStagingState> stage{HostStagingState::kNew};  // of that use
  bool taken = false;  // a host staging has it; under the pool's mutex
  // Under the pool's mutex: until that is true a peer's card may write there. Null: none does.
  std::shared_ptr<const std::atomic<bool>> quiet;
};

/// A stream, and the context that must be current to use it.
struct StreamInContext {
  drivers::cuda::CUcontext context = nullptr;
  drivers::cuda::CUstream stream = nullptr;
};

class HostStagingPool {
 public:
  explicit HostStagingPool(const drivers::cuda::Cuda& cuda) : cuda_(cuda) {}
  /// Of all communicators of the process. It is never destroyed: its memory goes with the process,
  /// since the driver may go first.
  static HostStagingPool& of_process(const drivers::cuda::Cuda& cuda);

  const drivers::cuda::Cuda& cuda() const { return cuda_; }

  /// One with so much room behind its words, that no stream uses any more. A context is current.
  Result<HostStagingSlot*> take(uint64_t bytes);
  /// `quiet`: nobody gets the slot before that is true; null: at once.
  void give_back(HostStagingSlot* slot, std::shared_ptr<const std::atomic<bool>> quiet = {});
  /// Frees what nobody uses, and what no communicator has announced. A context is current.
  void trim();

 private:
  HostStagingSlot* find(uint64_t bytes) TUTTI_REQUIRES(mutex_);
  bool is_free(const HostStagingSlot& slot) const TUTTI_REQUIRES(mutex_);

  const drivers::cuda::Cuda& cuda_;
  Mutex mutex_;
  std::vector<std::shared_ptr<HostStagingSlot>> slots_ TUTTI_GUARDED_BY(mutex_);
};

/// A slot of the pool as a call has it: host memory for its input and output, and the copies
/// between them and the device.
class HostStagingCopies {
 public:
  /// The streams' context is current. The pool lives longer.
  static Result<std::unique_ptr<HostStagingCopies>> create(HostStagingPool& pool,
                                                           const exec::DevicePieces& input,
                                                           const exec::DevicePieces& output);
  HostStagingCopies(const HostStagingCopies&) = delete;
  HostStagingCopies& operator=(const HostStagingCopies&) = delete;
  ~HostStagingCopies();

  const drivers::cuda::Cuda& cuda() const { return pool_.cuda(); }
  HostStagingSlot& slot() const { return *slot_; }
  HostStagingWords& words() const { return slot_->words(); }
  std::byte* input() const { return input_; }
  std::byte* output() const { return output_; }
  Status copy_in(drivers::cuda::CUstream stream) { return in_.submit(cuda(), stream); }
  Status copy_out(drivers::cuda::CUstream stream) { return out_.submit(cuda(), stream); }

 private:
  HostStagingCopies(HostStagingPool& pool, HostStagingSlot* slot) : pool_(pool), slot_(slot) {}

  HostStagingPool& pool_;
  HostStagingSlot* const slot_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  drivers::cuda::CopyBatch in_, out_;
  std::shared_ptr<const void> held_;  // until the stream is past in_
};

class CudaHostStaging final : public exec::HostStaging,
                              public exec::Fence,
                              public std::enable_shared_from_this<CudaHostStaging> {
 public:
  /// The stream's context is current. The pool outlives the host staging.
  static Result<std::shared_ptr<exec::HostStaging>> create(HostStagingPool& pool,
                                                           StreamInContext where,
                                                           const exec::DevicePieces& input,
                                                           const exec::DevicePieces& output);
  CudaHostStaging(const CudaHostStaging&) = delete;
  CudaHostStaging& operator=(const CudaHostStaging&) = delete;
  ~CudaHostStaging() override;

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
  CudaHostStaging(std::unique_ptr<HostStagingCopies> copies, StreamInContext where)
      : cuda_(copies->cuda()), copies_(std::move(copies)), slot_(&copies_->slot()), where_(where) {}

  Status put_leave();
  void abandon();

  const drivers::cuda::Cuda& cuda_;
  const std::unique_ptr<HostStagingCopies> copies_;
  HostStagingSlot* const slot_;
  const StreamInContext where_;
};

}  // namespace tutti::engines::cuda
