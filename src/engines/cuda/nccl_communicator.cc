#include "src/engines/cuda/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::nccl::NcclComm;
using drivers::nccl::NcclResult;

namespace {

constexpr uint64_t kMostMakingNs = 120 * kNanosecondsPerSecond;

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

/// Of the current context's device; 0: it cannot be found out.
uint64_t free_bytes(const drivers::cuda::Cuda& cuda) {
  size_t unused = 0, all = 0;
  return cuda.call.cuMemGetInfo(&unused, &all) == drivers::cuda::kSuccess ? unused : 0;
}

/// Runs it in a thread that nobody waits for, or here where there can be none.
void run_apart(const char* name, const std::function<void()>& body) {
  Result<std::thread> thread = start_thread(name, body);
  if (!thread.ok()) return body();
  thread.value().detach();
}

}  // namespace

void NcclCommunicator::make() {
  run_apart("tutti-nccl", [self = shared_from_this()] {
    Status made = self->try_to_make();
    const auto outcome = made.ok() ? NcclOutcome::kMade : NcclOutcome::kFailed;
    const MutexLock lock(self->mutex_);
    self->why_ = std::move(made);
    if (self->outcome_ == nullptr) return;
    self->outcome_->store(static_cast<uint64_t>(outcome), std::memory_order_release);
  });
}

// Other threads may capture streams meanwhile. Whatever is half made is ended here.
Status NcclCommunicator::try_to_make() {
  const drivers::nccl::Nccl& nccl = *parts_.library;
  const drivers::cuda::ContextScope scope(*parts_.cuda, parts_.context);
  if (!scope.status().ok()) return scope.status();
  const drivers::cuda::UncapturedScope uncaptured(*parts_.cuda);
  drivers::nccl::NcclConfig config = nccl.config();
  const uint64_t free_before = free_bytes(*parts_.cuda);
  NcclComm comm = nullptr;
  NcclResult result =
      nccl.call.ncclCommInitRankConfig(&comm, parts_.ranks, parts_.id, parts_.rank, &config);
  const uint64_t until_ns = deadline_after(kMostMakingNs);
  const auto is_late = [&] {
    return monotonic_ns() < until_ns ? Status() : Status::timeout("it takes too long");
  };
  if (comm != nullptr && result == drivers::nccl::kInProgress) result = wait(comm, is_late);
  Status made = nccl.check(result, "ncclCommInitRankConfig", comm);
  if (result == drivers::nccl::kInProgress) {
    made = Status::unsupported("NCCL's communicator was not made within 120 s");
  }
  if (made.ok()) measure(free_before);
  if (made.ok()) {
    const MutexLock lock(mutex_);
    if (!aborted_.load()) comm_ = comm;
    if (comm_ != nullptr) return {};
    made = Status::unsupported("the communicator has ended");
  }
  if (comm != nullptr) (void)nccl.call.ncclCommAbort(comm);
  ended_.store(true);
  return made;
}

// NCCL's result, or in progress if there is no use in waiting for it.
NcclResult NcclCommunicator::wait(NcclComm comm, const std::function<Status()>& failure) const {
  NcclResult state = drivers::nccl::kInProgress;
  while (state == drivers::nccl::kInProgress && !aborted_.load() && failure().ok()) {
    nap();
    const NcclResult asked = parts_.library->call.ncclCommGetAsyncError(comm, &state);
    if (asked != drivers::nccl::kSuccess) return asked;
  }
  return state;
}

Status NcclCommunicator::why() const {
  const MutexLock lock(mutex_);
  return why_;
}

Status NcclCommunicator::call(const char* function, const Put& put,
                              const std::function<Status()>& failure) {
  const MutexLock lock(mutex_);
  if (comm_ == nullptr) return Status::internal_error("NCCL's communicator has ended");
  NcclResult result = put(comm_);
  if (result == drivers::nccl::kInProgress) result = wait(comm_, failure);
  if (result != drivers::nccl::kInProgress) {
    return parts_.library->check(result, function, comm_);
  }
  if (Status failed = failure(); !failed.ok()) return failed;
  return Status::remote_error("NCCL's communicator was ended while it connected");
}

// Other programs, and other threads of this one, take memory of the device as well.
void NcclCommunicator::measure(uint64_t free_before) {
  const uint64_t free_now = free_bytes(*parts_.cuda);
  const MutexLock lock(memory_mutex_);
  if (free_before == 0 || free_now == 0) return;
  memory_.counted_by = exec::VendorMemory::CountedBy::kDevice;
  memory_.bytes = free_before - std::min(free_before, free_now);
}

void NcclCommunicator::ask_for_memory() {
  const auto ask = parts_.library->call.ncclCommMemStats;
  if (comm_ == nullptr || suspended_ || ask == nullptr) return;
  exec::VendorMemory found;
  found.counted_by = exec::VendorMemory::CountedBy::kLibrary;
  const auto knows = [&](drivers::nccl::NcclMemoryFact fact, uint64_t& bytes) {
    return ask(comm_, fact, &bytes) == drivers::nccl::kSuccess;
  };
  if (!knows(drivers::nccl::kBytesOfAll, found.bytes)) return;
  if (!knows(drivers::nccl::kBytesThatSuspendGivesBack, found.given_back)) return;
  const MutexLock lock(memory_mutex_);
  memory_ = found;
}

exec::VendorMemory NcclCommunicator::memory() {
  if (mutex_.try_lock()) {
    ask_for_memory();
    mutex_.unlock();
  }
  const MutexLock lock(memory_mutex_);
  return memory_;
}

// NCCL's function returns when all ranks are in it, so another thread is in there: this one can go
// when the communicator fails, and abort() ends what the other waits for.
Status NcclCommunicator::switch_memory(bool back, const std::function<Status()>& failure) {
  struct Turn {
    std::atomic<bool> over{false};
    Status outcome;
  };
  const auto turn = std::make_shared<Turn>();
  run_apart("tutti-nccl-mem", [self = shared_from_this(), turn, back] {
    turn->outcome = self->try_to_switch(back);
    turn->over.store(true, std::memory_order_release);
  });
  while (!turn->over.load(std::memory_order_acquire)) {
    if (Status failed = failure(); !failed.ok()) return failed;
    nap();
  }
  return turn->outcome;
}

Status NcclCommunicator::try_to_switch(bool back) {
  const drivers::nccl::Nccl& nccl = *parts_.library;
  const drivers::cuda::ContextScope scope(*parts_.cuda, parts_.context);
  if (!scope.status().ok()) return scope.status();
  const drivers::cuda::UncapturedScope uncaptured(*parts_.cuda);
  NcclComm comm = nullptr;
  {
    const MutexLock lock(mutex_);
    ask_for_memory();
    comm = comm_;
  }
  const Status ended = Status::remote_error("NCCL's communicator has ended meanwhile");
  if (comm == nullptr) return ended;
  NcclResult result = back ? nccl.call.ncclCommSuspend(comm, drivers::nccl::kSuspendMemory)
                           : nccl.call.ncclCommResume(comm);
  const MutexLock lock(mutex_);
  if (comm_ == nullptr) return ended;
  if (result == drivers::nccl::kInProgress) result = wait(comm, [] { return Status(); });
  if (result == drivers::nccl::kInProgress) return ended;
  Status done = nccl.check(result, back ? "ncclCommSuspend" : "ncclCommResume", comm);
  if (done.ok()) suspended_ = back;
  return done;
}

Status NcclCommunicator::look() {
  if (!mutex_.try_lock()) return {};
  Status found;
  if (comm_ != nullptr) {
    NcclResult state = drivers::nccl::kSuccess;
    NcclResult asked = parts_.library->call.ncclCommGetAsyncError(comm_, &state);
    if (asked == drivers::nccl::kSuccess) asked = state;
    found = parts_.library->check(asked, "a call", comm_);
  }
  mutex_.unlock();
  return found;
}

// A communicator that is being made is ended by the thread that makes it.
void NcclCommunicator::abort() {
  if (aborted_.exchange(true)) return;
  run_apart("tutti-nccl-end", [self = shared_from_this()] { self->end(); });
}

void NcclCommunicator::end() {
  NcclComm comm = nullptr;
  {
    const MutexLock lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm == nullptr) return;
  const drivers::cuda::ContextScope scope(*parts_.cuda, parts_.context);
  const drivers::cuda::UncapturedScope uncaptured(*parts_.cuda);
  (void)parts_.library->call.ncclCommAbort(comm);
  ended_.store(true);
}

void NcclCommunicator::forget() {
  constexpr uint64_t kPatienceNs = kNanosecondsPerSecond;
  const uint64_t until_ns = deadline_after(kPatienceNs);
  while (aborted_.load() && !ended_.load() && monotonic_ns() < until_ns) nap();
  const MutexLock lock(mutex_);
  outcome_ = nullptr;
}

}  // namespace tutti::engines::cuda
