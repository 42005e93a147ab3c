// The kernels of a rank that run short calls by themselves (fused_thread.h): whether its group has
// them, their programs, and their launches.
//
// They wait for the peers' kernels, so all blocks of all ranks must be on their devices at once:
// each rank has a device of its own, or the driver says that MPS shares it.
//
// Owns: the functions, which are all loaded when it is made. Lifetime: the memory that programs
// name lives longer. Threads: one at a time. Errors: kUnsupported: the group has none, equal on all
// ranks; else of the driver.
#pragma once

#include <array>
#include <memory>

#include "src/engines/cuda/device_ring.h"
#include "src/engines/cuda/fold_kernels.h"
#include "src/engines/cuda/fused_machine.h"

namespace tutti::engines::cuda {

struct FusedParts {
  std::shared_ptr<const FoldKernels> kernels;  // null: the rank has none
  const DeviceRing* ring = nullptr;            // for the making
  drivers::cuda::CUdeviceptr words = 0;        // streams::FusedWords
  uint64_t scratch = 0, scratch_bytes = 0;
};

class FusedCalls {
 public:
  /// Collective (exec::Device::open). The context is current.
  static Result<std::shared_ptr<FusedCalls>> open(const drivers::cuda::Cuda& cuda,
                                                  const exec::DeviceRankOptions& options,
                                                  FusedParts parts);

  /// Puts the call into the stream, captured or not.
  Status put(const plan::Plan& plan, const FusedCall& call, drivers::cuda::CUstream stream);
  exec::DeviceCounts count(const plan::Plan& plan) const;
  uint64_t mailbox_bytes() const { return addresses_.layout.mailbox_bytes; }

  /// As exec::DeviceRank's, without any device.
  static Result<exec::FusedNeed> need(const plan::Plan& plan, int rank, int ranks,
                                      const exec::Call& buffers);

 private:
  FusedCalls(std::shared_ptr<const FoldKernels> kernels, FusedAddresses addresses)
      : kernels_(std::move(kernels)), addresses_(std::move(addresses)), machine_(addresses_) {}
  Status load();
  static std::string capacity(const drivers::cuda::Cuda& cuda, const DeviceRing& ring,
                              const FusedCalls& made);

  const std::shared_ptr<const FoldKernels> kernels_;
  const FusedAddresses addresses_;
  FusedMachine machine_;
  // By type and operation; null: the fold is that of another row (fold_row()).
  std::array<std::array<drivers::cuda::CUfunction, types::kReduceOps>, types::kDataTypes>
      functions_{};
  int blocks_at_once_ = 0;          // of a multiprocessor
  uint32_t blocks_ = kFusedBlocks;  // of a launch, unless the call takes fewer
};

}  // namespace tutti::engines::cuda
