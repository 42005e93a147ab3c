#include "src/api/in_flight_calls.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/wait.h"

namespace tutti::api {
namespace {

constexpr uint32_t kBarrierSpins = 100;

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

void run_process_barrier() {
  // Registered, so it fails only where a filter of system calls came later. Any store is seen long
  // before this time is over.
  constexpr useconds_t kStoresAreSeenUs = 10'000;
  if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) usleep(kStoresAreSeenUs);
}

// tidy: allow mutable (a signal handler's thread is asked in which calls it is)
thread_local int calls_inside = 0;

}  // namespace

ThreadInCall::ThreadInCall() { ++calls_inside; }
ThreadInCall::~ThreadInCall() { --calls_inside; }
bool is_in_call() { return calls_inside > 0; }

UseGuard::UseGuard(InFlightCalls* in_flight) : in_flight_(in_flight) {
  if (in_flight_ == nullptr) return;
  ++calls_inside;
  in_flight_->uses_.fetch_add(1, std::memory_order_seq_cst);
}

UseGuard::~UseGuard() {
  if (in_flight_ == nullptr) return;
  in_flight_->uses_.fetch_sub(1, std::memory_order_release);
  --calls_inside;
}

bool prepare_process_barrier() {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void InFlightCalls::announce_change() const {
  if (!callers_fence_) run_process_barrier();
}

void InFlightCalls::wait_for_others() const {
  announce_change();
  Backoff backoff(kBarrierSpins);
  while (has_caller() || uses_.load(std::memory_order_seq_cst) > 1) backoff.pause();
}

}  // namespace tutti::api
