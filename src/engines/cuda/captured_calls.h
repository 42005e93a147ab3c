// Calls that graphs run from device to device: put into a captured stream once, run on every launch
// of the graph (captured_words.h has the protocol of calls of all ranks, captured_pairs.h that of
// sends and receives).
//
// Each run begins with a function of the host, which says that it has come: it writes what is
// called where the peers see it, and compares; and a run has a deadline, as an eager call has.
// While the communicator has failed, and when it is no more, look() stores into the words that the
// streams of this rank wait for a value beyond all, again and again, until the run is over: a
// living peer may still write its own.
//
// Owns: the pages, and the ring once the rank is gone. Lifetime: each graph that has a call keeps
// it. Threads: put() and leave() one at a time; runs begin in threads of the driver's; look() any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/engines/cuda/captured_page.h"
#include "src/engines/cuda/device_ring.h"
#include "src/engines/cuda/sentry.h"
#include "src/exec/transfer_book.h"
#include "src/plan/cursor.h"

namespace tutti::engines::cuda {

/// The rank that the calls belong to, while it is there. Threads: any.
struct CapturedOwner {
  std::function<Status()> failure;                     // of the communicator
  std::function<void(Status, diagnosis::Cause)> fail;  // the same from now on; peers see why
  std::function<void()> publish;                       // peers see why it has failed
};

/// Why the communicator fails, and because of whom.
struct CapturedFinding {
  Status status;
  diagnosis::Cause cause;
};

class CapturedCalls final : public Guarded, public std::enable_shared_from_this<CapturedCalls> {
 public:
  struct Parts {
    CapturedPages pages;
    CapturedOwner owner;
    std::shared_ptr<FoldKernels> kernels;  // null: none
    DeviceAddresses addresses;             // of eager calls
    PairAddresses slots;                   // without words
  };
  CapturedCalls(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                const exec::DeviceRankOptions& options, Parts parts);
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;
  ~CapturedCalls() override;

  /// Puts the call into the captured stream. `cursors`: of a rank that has made no call.
  Status put(exec::StreamedCall& call, plan::Cursors cursors);
  /// The same of transfers, and an all_to_all_v; all streams are of one capture.
  Status put(exec::StreamedTransfers& call);
  /// Whether a run has begun that is not over. Lets it go on where that is due.
  bool look() override;
  /// Whether a run has ever begun.
  bool has_run() const { return has_run_.load(std::memory_order_relaxed); }
  /// Of one of the last runs that have begun: a peer runs another call in its place.
  std::optional<CapturedFinding> find_recent_difference();
  /// The rank is no more: graphs that are still there run in vain. They keep the ring. A context is
  /// current.
  void leave(std::unique_ptr<DeviceRing> ring);

 private:
  struct Call;
  /// The run that is under way.
  struct Current {
    uint32_t number = 0;  // 0: sends and receives, which are no call of all ranks
    const Call* call = nullptr;
    uint64_t deadline_ns = 0;
  };
  CapturedPage& page() const { return pages_.page(rank_); }
  Status begin_in_graph(const exec::StreamPlace& where, std::shared_ptr<Call> call);
  Result<std::shared_ptr<CapturedPairs>> pairs_of(const exec::StreamPlace& where);
  Status follow(CUstream behind, CUstream before) const;
  Status put_steps(CUstream stream, const CapturedSteps& steps, bool ends);
  Status put_plan(CUstream stream, exec::StreamedCall& call, plan::Cursors& cursors);
  void begin(const Call& call);
  void announce(const Call& call);
  std::optional<CapturedFinding> compare(const Call& call);
  std::optional<CapturedFinding> find_in_last_runs(uint32_t most) const;
  std::optional<CapturedFinding> find_difference(uint32_t number) const;
  CapturedFinding describe_difference(uint32_t number, size_t peer) const;
  std::optional<CapturedFinding> heed_deadline() const;
  void let_go() const;

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUcontext context_;
  const size_t rank_;
  const std::function<std::string(int)> name_of_;
  CapturedPages pages_;
  std::shared_ptr<FoldKernels> kernels_;
  const DeviceAddresses addresses_;
  const PairAddresses pairs_;
  SideStreams sides_;
  std::vector<std::pair<uint64_t, std::weak_ptr<CapturedPairs>>> captures_;  // by their ids
  std::unique_ptr<DeviceRing> ring_;
  std::mutex mutex_;
  std::optional<CapturedOwner> owner_;  // under mutex_; none: the rank is gone
  std::optional<Current> run_;          // under mutex_
  uint32_t number_ = 0;                 // under mutex_: of the last run of a call of all ranks
  exec::TransferBook book_;             // under mutex_: of all runs
  std::atomic<bool> has_run_{false};
};

}  // namespace tutti::engines::cuda
