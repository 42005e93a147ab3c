#include "src/api/pending_init.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "src/api/departure.h"
#include "src/api/device.h"
#include "src/api/events.h"
#include "src/api/hand_out.h"
#include "src/api/process.h"
#include "src/api/submit.h"
#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/thread.h"
#include "src/base/wait.h"

namespace tutti::api {
namespace {

// An abort of the handle or of its parent ends the making, also one that came before.
Status make_cancellable(PendingInit& pending) {
  Result<std::shared_ptr<Cancellation>> made = Cancellation::create();
  if (!made.ok()) return made.status();
  pending.cancellation = std::move(made).value();
  for (tuttiComm* one : {pending.handle, pending.parent}) {
    if (one == nullptr) continue;
    const MutexLock lock(one->error_mutex);
    one->cancellation = pending.cancellation;
    if (one->abort) pending.cancellation->cancel();
  }
  return {};
}

void forget_cancellation(tuttiComm* handle) {
  if (handle == nullptr || is_inherited(*handle)) return;
  const MutexLock lock(handle->error_mutex);
  handle->cancellation = nullptr;
}

Result<WaitLimit> wait_limit_for(const PendingInit& pending) {
  const Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  return process.value()->wait_limit(pending.cancellation);
}

Result<std::unique_ptr<comm::Communicator>> run_initializer(const PendingInit& pending) {
  try {
    const Result<WaitLimit> wait_limit = wait_limit_for(pending);
    if (!wait_limit.ok()) return wait_limit.status();
    const std::shared_ptr<const void> here = device().enter(pending.device);
    return pending.make(wait_limit.value());
  } catch (const std::exception& error) {
    return status_of(error);
  }
}

bool change(tuttiComm* handle, CommState from, CommState to) {
  return handle->state.compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

// It can be cancelled no more, and the parent is free again, unless somebody ended it meanwhile and
// left the rest to us.
void release_parent(const PendingInit& pending, CommState parent) {
  forget_cancellation(pending.handle);
  forget_cancellation(pending.parent);
  free_parent(pending, parent);
}

void fail(const PendingInit& pending, const Status& reason) {
  if (pending.handle == nullptr || is_inherited(*pending.handle)) return;
  pending.handle->failure = reason;
  if (change(pending.handle, CommState::kMaking, CommState::kFailed)) return;
  if (change(pending.handle, CommState::kPlanned, CommState::kFailed)) return;
  pending.handle->state.store(CommState::kEnded, std::memory_order_release);
}

// Everything but the caller's variable, which a worker must not touch. Whatever needs memory is
// done first, and caught: an exception after that would leave a handle that no worker ends.
Status conclude(const PendingInit& pending, Result<std::unique_ptr<comm::Communicator>> made) {
  if (made.ok() && pending.handle != nullptr) {
    const Status enrolled = caught_status([&] {
      look_for_device_memory();
      pending.handle->teardowns->add(made.value()->id());
      return Status();
    });
    if (!enrolled.ok()) made = enrolled;
  }
  if (pending.handle == nullptr && !pending.blocking && !made.ok()) {
    const MutexLock lock(pending.parent->error_mutex);
    pending.parent->failure = made.status();
  }
  release_parent(pending,
                 made.ok() && pending.revives_parent ? CommState::kAlive : pending.parent_was);
  if (!made.ok()) {
    fail(pending, made.status());
    return made.status();
  }
  if (pending.handle == nullptr) return {};
  pending.handle->communicator = std::move(made).value();
  if (!change(pending.handle, CommState::kMaking, CommState::kAlive)) {
    (void)end_communicator(pending.handle, CommState::kEnded);
  }
  return {};
}

// There is no thread for it, and this one may have to make the rank that it would wait for. An
// initializer that is cancelled waits for nobody, and tells the others; but where they meet at this
// rank, which takes a thread, too.
Status conclude_unrun(const PendingInit& pending, const Status& reason) {
  pending.cancellation->cancel();
  (void)run_initializer(pending);
  return conclude(pending, of_rank(pending.who, reason));
}

Status make_now(const PendingInit& pending) { return conclude(pending, run_initializer(pending)); }

// A blocking call that failed leaves no handle. A thread that aborted it meanwhile waits for its
// end.
void take_back(const PendingInit& pending) {
  if (pending.handle == nullptr) return;
  (void)change(pending.handle, CommState::kFailed, CommState::kNone);
  hand_out(pending.out, nullptr);
}

/// The blocking makings of one call. If one fails the others end, too: they may be waiting for its
/// rank, and the call returns when all are over.
class Together {
 public:
  explicit Together(const std::vector<PendingInit>& pending_inits)
      : makings_(pending_inits), results_(makings_.size()) {
    threads_.reserve(makings_.size());
  }

  /// The last in this thread, the others in threads of their own: no making waits for another one
  /// to begin. The first error.
  Status run() {
    for (size_t i = 0; i + 1 < makings_.size(); ++i) {
      const Status started = start([this, i] { note(i, make_now(makings_[i])); });
      if (started.ok()) continue;
      note(i, conclude_unrun(makings_[i], started));
      makings_[i].make = nullptr;  // it may hold a place in a queue
    }
    if (!makings_.empty()) note(makings_.size() - 1, make_now(makings_.back()));
    for (std::thread& thread : threads_) thread.join();
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i].ok()) take_back(makings_[i]);
    }
    const MutexLock lock(mutex_);
    return first_;
  }

 private:
  template <class Body>
  Status start(const Body& body) {
    return caught_status([&] {
      Result<std::thread> thread = start_thread("tutti-make", body);
      if (thread.ok()) threads_.push_back(std::move(thread).value());
      return thread.status();
    });
  }

  void note(size_t index, Status result) {
    results_[index] = std::move(result);
    if (results_[index].ok()) return;
    const MutexLock lock(mutex_);
    if (!first_.ok()) return;
    first_ = results_[index];
    for (const PendingInit& pending : makings_) pending.cancellation->cancel();
  }

  std::vector<PendingInit> makings_;
  std::vector<Status> results_;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  Status first_ TUTTI_GUARDED_BY(mutex_);
};

// An error if there can be no thread.
Status try_worker(tuttiComm* handle, const std::function<void()>& work) {
  join_worker(handle);  // of an earlier step of its life
  const MutexLock lock(handle->worker_mutex);
  return caught_status([&] {
    handle->worker_mutex.assert_held();
    Result<std::thread> thread = start_thread("tutti-make", work);
    if (thread.ok()) handle->worker = std::move(thread).value();
    return thread.status();
  });
}

void drop_making(const PendingInit& pending, const Status& reason) {
  release_parent(pending, pending.parent_was);
  fail(pending, reason);
  if (pending.blocking && pending.out != nullptr) take_back(pending);
}

}  // namespace

Status of_rank(const std::string& who, const Status& status) {
  if (who.empty() || status.ok()) return status;
  return Status(status.code(), who + ": " + std::string(status.message()));
}

Result<PendingInit> plan_init(tuttiComm_t* out, const CommConfig& config, Initializer make) {
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  PendingInit pending;
  pending.make = std::move(make);
  pending.device = device().current_or_used();
  pending.handle = process.value()->new_handle();
  pending.handle->config = config;
  pending.handle->teardowns = &process.value()->teardowns();
  // A watchdog may abort it as soon as it is handed out.
  pending.handle->state.store(in_group() ? CommState::kPlanned : CommState::kMaking,
                              std::memory_order_release);
  pending.out = out;
  pending.blocking = config.blocking;
  hand_out(out, pending.handle);
  return pending;
}

tuttiResult_t make_communicator(PendingInit pending) {
  tuttiComm* const parent = pending.parent;
  bool grouped = false;
  std::vector<PendingInit> pending_inits;
  const Status ready = caught_status([&] {
    grouped = add_to_group(pending);
    if (!grouped) pending_inits.push_back(std::move(pending));
    return Status();
  });
  if (!ready.ok()) {
    drop_making(pending, ready);
    return refuse(parent, ready);
  }
  if (grouped) return tuttiSuccess;
  const Status status = run_inits(std::move(pending_inits));
  const bool under_way = status.code() == Code::kInProgress;
  return report(under_way ? nullptr : parent, status);
}

Status check_inits(const std::vector<PendingInit>& pending_inits) {
  for (const PendingInit& pending : pending_inits) {
    const tuttiComm* keeper = pending.handle != nullptr ? pending.handle : pending.parent;
    if (is_inherited(*keeper)) return inherited("a communicator of the group");
  }
  return {};
}

// Every group of calls comes here, most without a pending init: looking for descriptors takes
// longer than to enqueue a call on a device.
Status run_inits(std::vector<PendingInit> pending_inits) {
  if (pending_inits.empty()) return {};
  const ThreadInCall inside;
  Status in_progress;
  const Status ready = caught_status([&]() -> Status {
    const auto is_blocking = [](const PendingInit& pending) { return pending.blocking; };
    if (std::any_of(pending_inits.begin(), pending_inits.end(), is_blocking)) {
      Status status = check_can_wait("what makes communicators");
      if (!status.ok()) return status;
    }
    const Result<Process*> process = Process::current();
    if (!process.ok()) return process.status();
    const DescriptorRoom::Claim room(process.value()->descriptors(), pending_inits.size());
    for (PendingInit& pending : pending_inits) {
      if (Status status = make_cancellable(pending); !status.ok()) return room.explain(status);
      if (pending.blocking) continue;
      in_progress = Status(Code::kInProgress, "the communicator is being made");
    }
    return {};
  });
  if (!ready.ok()) {
    drop_inits(pending_inits, ready);
    return ready;
  }
  for (const PendingInit& pending : pending_inits) {
    if (pending.handle != nullptr)
      (void)change(pending.handle, CommState::kPlanned, CommState::kMaking);
  }
  for (PendingInit& pending : pending_inits) {
    if (pending.blocking) continue;
    tuttiComm* keeper = pending.handle != nullptr ? pending.handle : pending.parent;
    const Status started =
        caught_status([&] { return try_worker(keeper, [pending] { (void)make_now(pending); }); });
    if (!started.ok()) (void)conclude_unrun(pending, started);
  }
  std::erase_if(pending_inits, [](const PendingInit& pending) { return !pending.blocking; });
  std::optional<Together> together;
  const Status prepared = caught_status([&] {
    together.emplace(pending_inits);
    return Status();
  });
  if (!prepared.ok()) drop_inits(pending_inits, prepared);
  pending_inits.clear();  // an initializer may hold a place in a queue
  const Status first = prepared.ok() ? together->run() : prepared;
  return first.ok() ? in_progress : first;
}

void free_parent(const PendingInit& pending, CommState state) {
  tuttiComm* parent = pending.parent;
  if (parent == nullptr || change(parent, CommState::kBusy, state)) return;
  if (is_inherited(*parent)) return;
  (void)end_communicator(parent, CommState::kEnded);
}

void drop_inits(const std::vector<PendingInit>& pending_inits, const Status& reason) {
  for (const PendingInit& pending : pending_inits) drop_making(pending, reason);
}

void start_worker(tuttiComm* handle, const std::function<void()>& work) {
  if (!try_worker(handle, work).ok()) work();
}

void order_abort(tuttiComm* handle) {
  handle->abort = true;
  const MutexLock lock(handle->error_mutex);
  if (handle->cancellation != nullptr) handle->cancellation->cancel();
}

void join_worker(tuttiComm* handle) {
  const MutexLock lock(handle->worker_mutex);
  if (handle->worker.joinable()) handle->worker.join();
}

// A worker is started after its state is stored, and kept under the mutex.
bool join_worker(tuttiComm* handle, CommState settled) {
  const MutexLock lock(handle->worker_mutex);
  if (handle->state.load(std::memory_order_acquire) != settled) return false;
  if (handle->worker.joinable()) handle->worker.join();
  return true;
}

bool wait_for_use(tuttiComm* handle, const WaitLimit& wait_limit) {
  const comm::Communicator* communicator = handle->communicator.get();
  Backoff backoff(100);
  bool interrupted = false;
  handle->in_flight.announce_change();
  while (!handle->in_flight.is_empty() ||
         (communicator != nullptr && communicator->pending.load(std::memory_order_acquire) > 0)) {
    if (handle->abort && !interrupted && communicator != nullptr) {
      handle->communicator->failures().abort();
      interrupted = true;
    }
    wait_limit.tell_if_due();
    if (wait_limit.over()) return false;
    backoff.pause();
  }
  return true;
}

// Readers that come in between are told that it is being made.
Status move_over(tuttiComm* handle, std::unique_ptr<comm::Communicator> next,
                 const std::function<void()>& windows) {
  PendingTeardowns& teardowns = *handle->teardowns;
  teardowns.add(next->id());
  if (!change(handle, CommState::kBusy, CommState::kMaking)) {
    (void)abandon(std::move(next), teardowns);
    return Status::remote_error("the communicator was ended while it was edited");
  }
  const std::string words = "the group has gone on to epoch " +
                            std::to_string(next->standing().epoch()) + " of its communicator";
  close_to_graphs(*handle->communicator, words);
  (void)wait_for_use(handle, kNoDeadline);
  windows();
  std::unique_ptr<comm::Communicator> ended = std::exchange(handle->communicator, std::move(next));
  (void)change(handle, CommState::kMaking, CommState::kBusy);
  ended->failures().abort(Status::remote_error(words));
  (void)abandon(std::move(ended), teardowns);
  return {};
}

namespace {

bool is_awaited_elsewhere() {
  const Result<Process*> process = Process::current();
  return process.ok() && process.value()->is_awaited();
}

}  // namespace

Status end_communicator(tuttiComm* handle, CommState ended) {
  (void)wait_for_use(handle, kNoDeadline);
  handle->scaled_sums = {};
  Status outcome;
  std::unique_ptr<comm::Communicator> communicator = std::move(handle->communicator);
  if (communicator != nullptr) {
    PendingTeardowns& teardowns = *handle->teardowns;
    tell(*handle, *communicator, handle->abort ? "aborted" : "destroyed");
    communicator->failures().watch_abort(&handle->abort);
    outcome = handle->abort ? abandon(std::move(communicator), teardowns)
                            : depart(std::move(communicator), teardowns, is_awaited_elsewhere);
  }
  handle->outcome = outcome;
  handle->state.store(ended, std::memory_order_release);
  return outcome;
}

}  // namespace tutti::api
