// Calls that graphs run from device to device: put into a captured stream once, run on every launch
// of the graph (streams/captured_words.h has the protocol of calls of all ranks, captured_pairs.h
// that of sends and receives).
//
// Each run begins with a function of the host, which says that it has come; streams::CapturedRuns
// compares and watches it.
//
// Owns: the pages, and the ring once the rank is gone. Lifetime: each graph that has a call keeps
// it. Threads: put() and leave() one at a time; runs begin in threads of the driver's; look() any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/engines/cuda/captured_page.h"
#include "src/engines/cuda/device_ring.h"
#include "src/engines/streams/captured_runs.h"
#include "src/engines/streams/device_engine.h"
#include "src/plan/cursor.h"

namespace tutti::engines::cuda {

/// By exec::CallEngine; null: the rank has none, as of the walk.
using DeviceEngines = std::array<std::shared_ptr<streams::DeviceEngine>, exec::kCallEngines>;

class CapturedCalls final : public std::enable_shared_from_this<CapturedCalls> {
 public:
  struct Parts {
    CapturedPages pages;
    streams::WatchOwner owner;
    std::shared_ptr<FoldKernels> kernels;  // null: none
    DeviceAddresses addresses;             // of eager calls
    PairAddresses slots;                   // without words
  };
  CapturedCalls(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                const exec::DeviceRankOptions& options, Parts parts);
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;
  ~CapturedCalls();

  /// From now on the watchdog looks at runs.
  Status watch();

  /// Puts the call into the captured stream. `cursors`: of a rank that has made no call.
  Status put(exec::StreamedCall& call, plan::Cursors cursors);
  /// The same of transfers, and an all_to_all_v; all streams are of one capture.
  Status put(exec::StreamedTransfers& call);
  /// From now on calls may be the engine's. Before the first call.
  void use(exec::CallEngine which, std::shared_ptr<streams::DeviceEngine> engine) {
    engines_[static_cast<size_t>(which)] = std::move(engine);
  }
  /// The same of level calls.
  void use(std::shared_ptr<LevelLibrary> levels) { levels_ = std::move(levels); }
  /// The words of this rank's kernels that wait: as the device reaches them, and the host.
  drivers::cuda::CUdeviceptr fused_words() const { return pages_.fused(rank_); }
  streams::FusedWords& host_words() const { return host_words(rank_); }
  streams::FusedWords& host_words(size_t rank) const { return pages_.memory().page(rank).fused; }
  const streams::CallComparison& comparison() const { return runs_.comparison(); }
  const streams::CaptureComparison& captures() const { return runs_.captures(); }
  /// Whether a run has begun that is not over.
  bool look() { return runs_.look(); }
  /// A rank that the oldest run that is not over waits for, if it waits for one.
  std::optional<int> find_late() { return runs_.find_late_rank(); }
  /// The rank is no more: graphs that are still there run in vain. They keep the ring. A context is
  /// current.
  void leave(std::unique_ptr<DeviceRing> ring);

 private:
  /// A call in a graph, which keeps it.
  struct CallInGraph {
    std::shared_ptr<CapturedCalls> of;
    streams::CapturedCall call;
  };
  Status begin_in_graph(const exec::StreamPlace& where, streams::CapturedCall call);
  Result<std::shared_ptr<CapturedPairs>> pairs_of(const exec::StreamPlace& where);
  Status follow(CUstream behind, CUstream before) const;
  Status put_steps(CUstream stream, const streams::CapturedSteps& steps, bool ends);
  void let_go();
  uint64_t runs_alone_so_far() const;
  Status keep_read(const exec::StreamedCall& call) const;
  Status put_plan(CUstream stream, exec::StreamedCall& call, plan::Cursors& cursors);

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUcontext context_;
  const size_t rank_;
  CapturedPages pages_;
  std::shared_ptr<FoldKernels> kernels_;
  const DeviceAddresses addresses_;
  const PairAddresses pairs_;
  SideStreams sides_;
  std::vector<std::pair<uint64_t, std::weak_ptr<CapturedPairs>>> captures_;  // by their ids
  std::unique_ptr<DeviceRing> ring_;
  DeviceEngines engines_;
  std::shared_ptr<LevelLibrary> levels_;
  streams::CapturedRuns runs_;
};

}  // namespace tutti::engines::cuda
