// A communicator of NCCL's, as a rank of ours has one. A thread of its own makes it, and another
// one ends it: both may take seconds, and an end waits until all graphs are gone that name it.
//
// It is ended by ncclCommAbort() whatever its state: then its kernels wait for nobody any more, and
// no rank waits for another one to end.
//
// Owns: NCCL's communicator. Lifetime: its threads keep it. Threads: any. Errors: kUnsupported
// where it cannot be made, as outcome; kRemoteError, kSystemError of calls, with NCCL's words.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/drivers/cuda/driver.h"
#include "src/drivers/nccl/library.h"
#include "src/exec/vendor_library.h"

namespace tutti::engines::cuda {

/// A rank's, as a word that its peers read.
enum class NcclOutcome : uint64_t { kUnknown, kMade, kFailed };

class NcclCommunicator final : public std::enable_shared_from_this<NcclCommunicator> {
 public:
  struct NcclSeat {
    const drivers::nccl::Nccl* library = nullptr;
    const drivers::cuda::Cuda* cuda = nullptr;
    drivers::cuda::CUcontext context = nullptr;  // of the rank's device
    int rank = 0, ranks = 1;
    drivers::nccl::NcclId id{};
    std::atomic<uint64_t>* outcome = nullptr;  // an NcclOutcome, until forget()
  };
  /// Puts calls of NCCL's into streams.
  using Put = std::function<drivers::nccl::NcclResult(drivers::nccl::NcclComm)>;

  explicit NcclCommunicator(const NcclSeat& parts) : parts_(parts), outcome_(parts.outcome) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Begins to make it.
  void make();
  /// OK, or why it could not be made.
  Status why() const;
  /// `function`: for messages. While NCCL is still at it, `failure` is asked whether to go on.
  Status call(const char* function, const Put& put, const std::function<Status()>& failure);
  /// Gives its device memory back, or, not `back`, takes it again: on all ranks at once, which wait
  /// for each other in NCCL. `failure` is asked whether to go on; behind an error NCCL's
  /// communicator can only be aborted. The library can (Nccl::suspends).
  Status switch_memory(bool back, const std::function<Status()>& failure);
  /// As NCCL says, or as it was measured; of one that has given its memory back, what it had.
  exec::VendorMemory memory();
  /// An error that NCCL has found out about; OK while another thread is in a call.
  Status look();
  /// Its kernels end, and it does. Returns at once.
  void abort();
  /// Nobody reads the outcome any more. Waits a moment for what abort() has begun.
  void forget();

 private:
  Status try_to_make();
  Status try_to_switch(bool back);
  void measure(uint64_t free_before);
  void ask_for_memory() TUTTI_REQUIRES(mutex_);
  void end();
  drivers::nccl::NcclResult wait(drivers::nccl::NcclComm comm,
                                 const std::function<Status()>& failure) const;

  const NcclSeat parts_;
  std::atomic<bool> aborted_{false}, ended_{false};
  mutable Mutex mutex_;
  drivers::nccl::NcclComm comm_ TUTTI_GUARDED_BY(mutex_) = nullptr;  // once it is made
  bool suspended_ TUTTI_GUARDED_BY(mutex_) = false;
  mutable Mutex memory_mutex_;
  exec::VendorMemory memory_ TUTTI_GUARDED_BY(memory_mutex_);
  Status why_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<uint64_t>* outcome_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::engines::cuda
