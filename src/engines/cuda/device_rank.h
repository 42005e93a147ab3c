// A rank of a group whose streams reach each other from device to device (exec::DeviceRank).
//
// No stream can compare what ranks call, nor see that a peer is gone. So a call is written into the
// arena and compared on the host before its first signal; and a thread of the process, the sentry,
// looks at the calls that streams are not past yet: has the communicator failed, has a peer given
// up, has a deadline passed? Then it lets the rank's streams go on, by storing into the counters
// that they wait for a value that no call ever reaches. A peer that lives may still write its own
// value there, so it stores until the rank's streams are past all. Such a store calls no driver, so
// it works while another thread is stuck there.
//
// Calls of all ranks have numbers, which are equal on all of them; these and groups of transfers
// have places in the order of this rank's streams. The ring and its cursors are those of all
// streams: a caller puts each call behind the one before it (exec::CallOrder).
//
// Threads: enqueue() one at a time; look() by the sentry. Errors: of the communicator, by
// DeviceRankOptions::fail.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engines/cuda/call_watch.h"
#include "src/engines/cuda/captured_calls.h"
#include "src/engines/cuda/crossing.h"
#include "src/engines/cuda/device_ring.h"
#include "src/engines/cuda/pair_streams.h"
#include "src/engines/cuda/peer_memory.h"
#include "src/engines/cuda/sentry.h"
#include "src/engines/cuda/stream_machine.h"
#include "src/exec/device.h"
#include "src/exec/transfer_book.h"
#include "src/plan/cursor.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

class CudaDeviceRank final : public exec::DeviceRank, public Guarded {
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
  Status declare(uint32_t signature, const diagnosis::DescribedCall& described) override;
  Status declare(std::span<const exec::Transfer> transfers) override;
  Result<std::shared_ptr<const exec::PeerMemory>> share(std::byte* memory, uint64_t bytes) override;
  exec::DeviceCounts count(const plan::Plan& plan, bool scales, uint64_t first_copied,
                           bool captured) override;
  const Status& folds() const override { return folds_; }
  uint32_t most_sources() const override { return kMostFoldSources; }
  exec::DeviceCounts count(std::span<const exec::Transfer> transfers) override;
  const std::string& rings() const override { return ring_->why_pinned(); }
  exec::RingShape ring_shape() const override;
  uint64_t pair_bytes() const override { return pairs_.slots().pair_bytes(); }

  bool look() override;

 private:
  /// One that the stream was not past when it was last looked at.
  struct Pending {
    CallWatch::Watched call;
    uint64_t deadline_ns = 0;
    std::vector<uint64_t> awaited = {};                    // StreamMachine::awaited()
    std::vector<CountedPairs::Awaited> pair_awaited = {};  // of words of pairs
    std::function<void(const Status&)> over;
    std::shared_ptr<const exec::PeerMemory> reads[2] =
        {};  // what of the peers, if it is not staged
  };

  /// Of a call of this rank and one of `peer` under its number.
  struct Difference {
    Status status;
    int peer = 0;
  };

  CudaDeviceRank(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                 exec::DeviceRankOptions options, std::unique_ptr<DeviceRing> ring,
                 Result<FoldKernels> kernels);
  void take_graphs(CapturedPages pages);
  DeviceAddresses addresses() const;
  const exec::ArenaView& mine() const { return options_.arenas[rank_]; }
  Status put(CUstream stream, exec::StreamedCall& call);
  Status put(CUstream stream, exec::StreamedTransfers& call);
  Status start(CUstream stream, const exec::StreamedCall& call);
  void add_steps(exec::DeviceCounts& counts, uint32_t rank, size_t lanes) const;
  void keep(Pending pending);
  Status announce(const exec::StreamedTransfers& call);
  Status join(CUstream stream, const std::vector<exec::StreamPlace>& others);
  Status let_follow(CUstream stream, const std::vector<exec::StreamPlace>& others);
  uint64_t next_place();
  Status differ(Difference found);
  void announce(uint32_t signature, const diagnosis::DescribedCall& described);
  Status compare(size_t peer, uint32_t number) const;
  std::optional<Difference> find_difference(uint64_t number) const;
  void give_up(Status why, diagnosis::Cause cause);
  std::optional<int> find_late() const;
  std::optional<int> find_late_peer(const std::vector<CountedPairs::Awaited>& awaited) const;
  std::optional<Difference> find_recent_difference() const;
  bool heed_peers();
  void heed_deadline();
  std::string where() const;
  void publish_failure();
  void let_go();
  bool advance();
  bool has_calls();
  bool awaits_peers();
  std::vector<Pending> take_finished();  // under mutex_

  const drivers::cuda::Cuda& cuda_;
  const exec::DeviceRankOptions options_;
  const size_t rank_;
  const drivers::cuda::CUcontext context_;
  std::unique_ptr<DeviceRing> ring_;
  Status folds_;
  std::shared_ptr<FoldKernels> kernels_;  // null: it does not; graphs keep them
  std::shared_ptr<CapturedCalls> captured_;
  StreamMachine machine_;
  plan::Walk<StreamMachine> walk_;
  plan::Cursors cursors_;
  SideStreams sides_;
  std::vector<CUdeviceptr> inputs_, outputs_;  // of the call that is being put, by rank
  CountedPairs pairs_;
  exec::TransferBook book_;                         // under mutex_
  std::optional<drivers::cuda::CudaEvent> beside_;  // in one stream of a group, for others
  diagnosis::CallLog log_;
  CallWatch watch_;
  std::mutex mutex_;
  std::deque<Pending> pending_;  // under mutex_
  uint64_t number_ = 0;          // of the last call of all ranks; under mutex_
  uint64_t place_ = 0;           // of the last call, or group of transfers; under mutex_
  uint64_t highest_ = 0;         // value that any stream waits for; under mutex_
  bool released_ = false;        // under mutex_
  // Of what was declared, while some peer may call something else; under mutex_.
  bool has_declared_ = false, awaits_peers_ = false;
  std::vector<exec::Transfer> declared_;
};

}  // namespace tutti::engines::cuda
