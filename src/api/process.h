// The one process-wide object, because a C API has no other place for what communicators share: the
// configuration, the log, the thread that watches peers, the endpoint, the engine thread.
//
// Threads: current() and the accessors from any. Lifetime: made at the first use. Threads do not
// survive a fork, and the arenas are shared with the parent, so a forked child makes its own object
// and finds all handles of the parent's marked as inherited: nothing they stand for may be touched.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/api/handle.h"
#include "src/base/descriptors.h"
#include "src/base/env.h"
#include "src/base/mutex.h"
#include "src/base/turns.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/launch/claim.h"
#include "src/bootstrap/watch.h"
#include "src/exec/device_memory.h"
#include "src/transport/arena.h"
#include "src/transport/endpoint.h"

namespace tutti::api {

class Process {
 public:
  /// The process's object; fails if the environment is malformed.
  static Result<Process*> current();
  /// For what the environment does not say. Fails once current() has read it.
  static Status add_default(Default given);

  const Env& env() const { return env_; }
  /// Of who makes a communicator or an id: until TUTTI_INIT_TIMEOUT, and not in silence. Without a
  /// cancellation nobody ends it.
  WaitLimit wait_limit(std::shared_ptr<Cancellation> cancellation) const;
  const ProcessId& id() const { return id_; }
  bootstrap::Watch& watch() { return *watch_; }
  DescriptorRoom& descriptors() { return *descriptors_; }
  /// Started at the first use.
  Result<operation::StreamEngine*> engine();
  comm::ProgressThread& progress_thread() { return progress_thread_; }
  transport::Endpoint& endpoint() { return *endpoint_; }
  PendingTeardowns& teardowns() { return teardowns_; }

  tuttiComm* new_handle();
  /// Whether another rank waits in a call on a communicator that no thread of this process is in.
  bool is_awaited();
  tuttiWindow* new_window();
  tuttiRequest* new_request();
  void free_request(tuttiRequest* request);
  HostStream* new_stream();
  void free_stream(HostStream* stream);
  /// The launched communicators of this process are made one after another, in the order of their
  /// calls, which is that of all ranks: a launcher's fence does not say whose it is, and where a
  /// port is given there is only one.
  Turns& launches() { return launches_; }
  /// How many of them were made. A thread that waits for its turn reads it when that has come.
  std::atomic<uint64_t>& launched() { return launched_; }
  /// That this process is its rank of a launched job, until it ends.
  void keep(std::unique_ptr<bootstrap::RankClaim> claim) { claim_ = std::move(claim); }
  /// The process ends.
  void end_claim() { claim_.reset(); }
  /// Counts the ids at a place that every rank was told: equal on all ranks, since all ask for them
  /// in the same order.
  uint64_t next_id() { return ids_.fetch_add(1, std::memory_order_relaxed); }

  /// The windows of a handle whose communicator is followed by another one of the same group, which
  /// has them under the same numbers. Nobody uses the handle meanwhile.
  void move_windows(tuttiComm* handle, comm::Communicator& next);

  Result<void*> allocate(size_t bytes);
  Result<void*> keep(std::unique_ptr<exec::DeviceAllocation> allocation);
  /// Of either kind.
  Status release(void* memory);
  /// The arena that [memory, memory + bytes) lies in; null if it is not from allocate(). It stays
  /// for as long as somebody has it, released or not, so that its addresses mean nothing else.
  std::shared_ptr<const transport::Arena> arena_of(const void* memory, size_t bytes);

  /// Around a fork: the child must not find the handles half changed.
  void hold_handles() TUTTI_ACQUIRES(mutex_) { mutex_.lock(); }
  void release_handles() TUTTI_RELEASES(mutex_) { mutex_.unlock(); }
  /// In a child, of the parent's object: whatever can be used no longer can.
  void disinherit() TUTTI_REQUIRES(mutex_);

 private:
  Process() = default;
  static Result<std::unique_ptr<Process>> create(std::span<const Default> defaults);

  Config config_;
  std::unique_ptr<Logger> log_;
  Env env_;
  ProcessId id_;  // random
  std::unique_ptr<DescriptorRoom> descriptors_;
  std::unique_ptr<bootstrap::Watch> watch_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // watch_ serves it
  bool has_barrier_ = false;                       // prepare_process_barrier()
  comm::ProgressThread progress_thread_;
  PendingTeardowns teardowns_;
  Turns launches_;
  std::atomic<uint64_t> launched_{0};
  std::unique_ptr<bootstrap::RankClaim> claim_;  // written by makings, which take turns
  std::atomic<uint64_t> ids_{0};
  Mutex mutex_;
  std::unique_ptr<operation::StreamEngine> engine_ TUTTI_GUARDED_BY(mutex_);
  std::deque<tuttiComm> handles_ TUTTI_GUARDED_BY(mutex_);      // addresses are stable
  std::deque<tuttiWindow> windows_ TUTTI_GUARDED_BY(mutex_);    // addresses are stable
  std::deque<tuttiRequest> requests_ TUTTI_GUARDED_BY(mutex_);  // addresses are stable
  std::vector<tuttiRequest*> free_requests_ TUTTI_GUARDED_BY(mutex_);
  std::set<HostStream*> streams_ TUTTI_GUARDED_BY(mutex_);  // owned
  std::map<std::byte*, std::shared_ptr<const transport::Arena>> arenas_ TUTTI_GUARDED_BY(mutex_);
  std::map<std::byte*, std::unique_ptr<exec::DeviceAllocation>> device_memory_
      TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::api
