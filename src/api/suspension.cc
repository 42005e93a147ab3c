// Communicators of tutti.h that give their device memory back for a while.
#include <algorithm>

#include "src/api/caught.h"
#include "src/api/events.h"
#include "src/api/registration.h"
#include "src/api/submit.h"
#include "src/base/clock.h"

namespace tutti::api {
namespace {

/// Another thread may have ended it meanwhile.
Status enter_state(tuttiComm_t comm, CommState from, CommState to) {
  if (comm->state.compare_exchange_strong(from, to, std::memory_order_seq_cst)) return {};
  return refuse_handle(comm);
}

/// Peers wait for this rank in an exchange that they may have begun before.
uint64_t patience_of(comm::Communicator& communicator) {
  constexpr uint64_t kMostNs = 60 * kNanosecondsPerSecond;
  const uint64_t own = communicator.collectives().planner().options().timeout_ns;
  return std::min(communicator.frame().timeout_of(own) / 2, kMostNs);
}

Status suspend(const RegistrationCall& call) {
  tuttiComm_t comm = call.comm;
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (call.operated_on) {
    return Status::invalid_usage(
        "tuttiCommSuspend: the open group has operations on this communicator");
  }
  comm::Communicator& communicator = *comm->communicator;
  if (Status status = drain(communicator); !status.ok()) return status;
  Status given = communicator.streams().suspend(patience_of(communicator));
  if (!given.ok()) return given;
  Status entered = enter_state(comm, CommState::kAlive, CommState::kSuspended);
  if (entered.ok()) tell(*comm, communicator, "suspended");
  return entered;
}

Status resume(const RegistrationCall& call) {
  tuttiComm_t comm = call.comm;
  const UseGuard use = guard_use(comm);
  if (Status status = check_suspended(comm); !status.ok()) return status;
  comm::Communicator& communicator = *comm->communicator;
  if (Status status = communicator.streams().resume(patience_of(communicator)); !status.ok()) {
    return status;
  }
  Status entered = enter_state(comm, CommState::kSuspended, CommState::kAlive);
  if (entered.ok()) tell(*comm, communicator, "resumed");
  return entered;
}

Status memory_of(tuttiComm_t comm, size_t* bytes, int* suspended) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  if (bytes == nullptr) {
    return Status::invalid_argument("tuttiCommGetDeviceMemory: bytes is null");
  }
  *bytes = comm->communicator->streams().device_bytes();
  if (suspended != nullptr) {
    *suspended = comm->state.load(std::memory_order_seq_cst) == CommState::kSuspended ? 1 : 0;
  }
  return {};
}

}  // namespace
}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    using namespace tutti::api;
    if (comm != nullptr && flags != TUTTI_SUSPEND_MEMORY) {
      return refuse(
          comm, tutti::Status::invalid_argument("tuttiCommSuspend: flags is TUTTI_SUSPEND_MEMORY"));
    }
    return register_memory({comm, suspend});
  });
}

tuttiResult_t tuttiCommResume(tuttiComm_t comm) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    using namespace tutti::api;
    RegistrationCall call{comm, resume};
    call.within = CommState::kSuspended;
    return register_memory(std::move(call));
  });
}

tuttiResult_t tuttiCommGetDeviceMemory(tuttiComm_t comm, size_t* bytes, int* suspended) {
  return tutti::api::caught(
      comm, [&] { return report(comm, tutti::api::memory_of(comm, bytes, suspended)); });
}

}  // extern "C"
