#include "src/api/presence.h"

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

Inside::Inside() { ++calls_inside; }
Inside::~Inside() { --calls_inside; }
bool is_inside() { return calls_inside > 0; }

Visitor::Visitor(Presence* presence) : presence_(presence) {
  if (presence_ == nullptr) return;
  ++calls_inside;
  presence_->visitors_.fetch_add(1, std::memory_order_seq_cst);
}

Visitor::~Visitor() {
  if (presence_ == nullptr) return;
  presence_->visitors_.fetch_sub(1, std::memory_order_release);
  --calls_inside;
}

bool prepare_process_barrier() {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void Presence::announce_change() const {
  if (!callers_fence_) run_process_barrier();
}

void Presence::wait_for_others() const {
  announce_change();
  Backoff backoff(kBarrierSpins);
  while (has_caller() || visitors_.load(std::memory_order_seq_cst) > 1) backoff.pause();
}

}  // namespace tutti::api
