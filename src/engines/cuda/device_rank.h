// A rank of a group whose streams reach each other from device to device (exec::DeviceRank).
//
// Calls that it puts into streams are announced, compared and watched by streams::EagerCalls, and
// runs of graphs by streams::CapturedRuns. The ring and its cursors are those of all streams: a
// caller puts each call behind the one before it (exec::CallOrder).
//
// Threads: enqueue() one at a time; look() any. Errors: of the communicator, by
// DeviceRankOptions::fail.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engines/cuda/captured_calls.h"
#include "src/engines/cuda/device_ring.h"
#include "src/engines/cuda/fused_calls.h"
#include "src/engines/cuda/host_staging.h"
#include "src/engines/cuda/nccl_engine.h"
#include "src/engines/cuda/pair_streams.h"
#include "src/engines/cuda/peer_memory.h"
#include "src/engines/cuda/stream_machine.h"
#include "src/engines/streams/eager_calls.h"
#include "src/exec/stream_rank.h"
#include "src/plan/cursor.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

class CudaDeviceRank final : public exec::DeviceRank {
 public:
  /// The context is current, and that of `device`.
  static Result<std::unique_ptr<exec::DeviceRank>> open(const drivers::cuda::Cuda& cuda,
                                                        drivers::cuda::CUdevice device,
                                                        drivers::cuda::CUcontext context,
                                                        exec::DeviceRankOptions options);
  ~CudaDeviceRank() override;
  CudaDeviceRank(const CudaDeviceRank&) = delete;
  CudaDeviceRank& operator=(const CudaDeviceRank&) = delete;

  Status enqueue(exec::StreamedCall call) override;
  Status enqueue(exec::StreamedTransfers call) override;
  Result<std::shared_ptr<exec::NetworkCrossing>> cross(
      exec::StreamedCall call, std::shared_ptr<const exec::NetworkPlan> plan,
      std::function<void()> arrived) override;
  Result<std::shared_ptr<exec::NetworkCrossing>> cross(
      exec::StreamedTransfers call, std::shared_ptr<const exec::BouncePairs> pairs,
      std::function<void()> arrived) override;
  std::optional<int> find_late() override;
  Status declare(uint32_t signature, const diagnosis::DescribedCall& described) override {
    return calls_.declare(signature, described);
  }
  Status declare(std::span<const exec::Transfer> transfers) override {
    return calls_.declare(transfers);
  }
  Result<std::shared_ptr<const exec::PeerMemory>> share(std::byte* memory, uint64_t bytes) override;
  Status suspend(const Status& over, uint64_t patience_ns) override;
  Status resume(uint64_t patience_ns) override;
  uint64_t device_bytes() const override {
    return ring_->device_bytes() + vendor_->memory().given_back;
  }
  exec::DeviceCounts count(const plan::Plan& plan, bool scales, uint64_t first_copied,
                           bool captured) override;
  const Status& folds() const override { return folds_; }
  uint32_t most_sources() const override { return kMostFoldSources; }
  exec::DeviceCounts count(const exec::StreamedTransfers& call,
                           const exec::BouncePairs* pairs) override;
  const Status& shares() const override { return ring_->shares_places(); }
  bool shares(types::DataType type, types::ReduceOp op) const override {
    return FoldKernels::folds_shared(type, op);
  }
  const Status& fuses() const override { return fuses_; }
  Result<exec::FusedNeed> need_fused(const plan::Plan& plan, int rank,
                                     const exec::Call& buffers) const override;
  uint64_t mailbox_bytes() const override;
  exec::DeviceCounts count_fused(const plan::Plan& plan) const override;
  exec::VendorLibrary& vendor() override { return *vendor_; }
  const std::string& rings() const override { return ring_->why_pinned(); }
  exec::RingShape ring_shape() const override;
  uint64_t pair_bytes() const override { return pairs_.slots().pair_bytes(); }
  uint64_t piece_bytes() const override { return pairs_.slots().slot_bytes(); }

  bool look() override;

 private:
  /// They make up a rank, but for its graphs.
  struct RankParts {
    std::unique_ptr<DeviceRing> ring;
    Result<FoldKernels> kernels;
    PairAddresses pairs;
  };
  CudaDeviceRank(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                 exec::DeviceRankOptions options, RankParts parts);
  Status take_graphs(CapturedPages pages);
  DeviceAddresses addresses() const;
  Status open_fused();
  Status open_vendor();
  void use(exec::CallEngine which, std::shared_ptr<streams::DeviceEngine> engine);
  Status enqueue_whole(exec::StreamedCall call, streams::DeviceEngine& engine);
  Status finish(plan::Progress progress, exec::StreamedCall& call);
  Status put(CUstream stream, exec::StreamedTransfers& call);
  Status start(CUstream stream, const exec::StreamedCall& call);
  void add_steps(exec::DeviceCounts& counts, uint32_t rank, size_t lanes) const;
  Status join(CUstream stream, const std::vector<exec::StreamPlace>& others);
  Status let_follow(CUstream stream, const std::vector<exec::StreamPlace>& others);

  const drivers::cuda::Cuda& cuda_;
  const exec::DeviceRankOptions options_;
  const drivers::cuda::CUcontext context_;
  std::unique_ptr<DeviceRing> ring_;
  Status folds_;
  std::shared_ptr<FoldKernels> kernels_;  // null: it does not; graphs keep them
  Status fuses_;
  std::shared_ptr<FusedCalls> fused_;  // null: fuses_ says why
  std::shared_ptr<NcclEngine> vendor_;
  DeviceEngines engines_;
  std::shared_ptr<CapturedCalls> captured_;
  StreamMachine machine_;
  plan::Walk<StreamMachine> walk_;
  plan::Cursors cursors_;
  SideStreams sides_;
  std::vector<CUdeviceptr> inputs_, outputs_;  // of the call that is being put, by rank
  CountedPairs pairs_;
  std::optional<drivers::cuda::CudaEvent> beside_;  // in one stream of a group, for others
  streams::EagerCalls calls_;
};

}  // namespace tutti::engines::cuda
