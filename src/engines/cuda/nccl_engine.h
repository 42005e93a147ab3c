// NCCL as an engine of a rank: whole calls of the group, put into the rank's streams by the real
// library, under our calls' order, comparison, watch and errors.
//
// Before NCCL's kernel the stream raises the rank's counter, as it does in plans, so that the watch
// can tell which rank has not come. No stream waits for a counter: NCCL's kernels wait for each
// other. Where one has to end, abort() of the inner communicator ends them all; one that was
// aborted is of no use any more, and neither is the communicator that has it.
//
// Owns: the inner communicator. Lifetime: graphs keep it (CapturedCalls). Threads: DeviceEngine's.
// Errors: kUnsupported, equal on all ranks, of refusal() and objection(); else of the communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/engines/cuda/level_library.h"
#include "src/engines/cuda/nccl_calls.h"
#include "src/engines/cuda/nccl_communicator.h"
#include "src/engines/streams/device_engine.h"
#include "src/exec/vendor_library.h"

namespace tutti::engines::cuda {

/// By which the rank's streams say how far they are.
struct NcclWords {
  drivers::cuda::CUdeviceptr counter = 0, finished = 0;
  uint64_t* progress = nullptr;  // the counter's value when the streams are past all calls
};

class NcclEngine final : public streams::DeviceEngine,
                         public exec::VendorLibrary,
                         public LevelLibrary {
 public:
  /// Collective (exec::Device::open). Begins to make the inner communicator, if refusal() is OK.
  /// `options` outlive the rank, and `words` what is put for it.
  static Result<std::shared_ptr<NcclEngine>> open(const drivers::cuda::Cuda& cuda,
                                                  drivers::cuda::CUcontext context,
                                                  const exec::DeviceRankOptions& options,
                                                  NcclWords words);

  Result<std::vector<uint64_t>> put(const exec::StreamedCall& call, uint64_t place) override;
  Status capture(const exec::StreamedCall& call) override;
  Status put_level(const LevelWork& work, drivers::cuda::CUstream stream) override;
  std::optional<EngineTrouble> look() override;
  void let_go() override;
  /// Collective, when no kernel of the rank's is under way: NCCL's device memory is given back, if
  /// the library of every rank can (of one that is still being made it is waited for). An error has
  /// failed the communicator.
  Status suspend(uint64_t patience_ns);
  /// Collective, behind suspend(). kSystemError, on all ranks: too little memory is free on some
  /// rank's device, which is current.
  Status find_room() const;
  /// Collective, behind that. An error has failed the communicator.
  Status resume(uint64_t patience_ns);
  /// The rank is no more.
  void leave();

  std::string name() const override;
  Status refusal() const override { return refusal_; }
  Status objection(const diagnosis::DescribedCall& call) const override {
    return object_to_nccl(call, powers_);
  }
  bool is_settled() const override { return settled_; }
  Status settle() override;
  exec::VendorMemory memory() const override;

 private:
  NcclEngine(const drivers::cuda::Cuda& cuda, const exec::DeviceRankOptions& options,
             NcclWords words)
      : cuda_(cuda),
        options_(options),
        rank_(options.rank),
        ranks_(static_cast<int>(options.arenas.size())),
        words_(words) {}
  Status prepare(drivers::cuda::CUcontext context);
  Status put(const exec::StreamedCall& call);
  Status failure(const char* what, uint64_t deadline_ns) const;
  Status switch_memory(bool back, uint64_t patience_ns);
  /// Equal on all ranks, once it is settled.
  bool gives_back() const {
    return is_settled() && inner_ != nullptr && refusal_.ok() && suspends_;
  }
  std::optional<size_t> find_unsettled() const;
  Status find_failed() const;

  const drivers::cuda::Cuda& cuda_;
  const exec::DeviceRankOptions& options_;
  const int rank_, ranks_;
  const NcclWords words_;
  const drivers::nccl::Nccl* library_ = nullptr;
  NcclPowers powers_;
  bool suspends_ = false;  // the library of every rank
  Status refusal_;
  std::atomic<bool> settled_{false};
  std::shared_ptr<NcclCommunicator> inner_;  // null: refused
};

}  // namespace tutti::engines::cuda
