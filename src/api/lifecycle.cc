// Communicators of tutti.h: made, asked, destroyed.
#include <cstring>
#include <utility>
#include <vector>

#include "src/api/caught.h"
#include "src/api/events.h"
#include "src/api/pending_init.h"
#include "src/api/submit.h"
#include "src/base/clock.h"
#include "src/operation/kinds.h"

namespace tutti::api {
namespace {

// Nothing of the communicator may wait in this thread's open group: it would run without it.
Status check_no_group(tuttiComm_t comm, const char* call) {
  if (!group_uses(comm)) return {};
  return Status::invalid_usage(std::string(call) +
                               ": the open group uses this communicator: end or discard it first");
}

// Where a signal handler has called exit(), or the library, and in callbacks.
Status check_not_inside(const tuttiComm& comm, const char* call) {
  if (Status status = check_can_wait(call); !status.ok()) return status;
  if (!comm.in_flight.is_callers_thread() && !is_in_call()) return {};
  return Status::invalid_usage(
      std::string(call) +
      ": this thread is in a call already, which a signal handler has interrupted; it would wait "
      "for itself. The other ranks learn of the end of this process; a communicator is ended by "
      "another thread");
}

/// Of several calls that end a communicator, one goes on from here. An abort that comes too late
/// for that makes a destroy that has begun an abort.
bool claim(tuttiComm_t comm, CommState from, bool abort) {
  if (abort) order_abort(comm);
  return comm->state.compare_exchange_strong(from, CommState::kEnding, std::memory_order_seq_cst);
}

/// Soon ends everything that the communicator's worker waits for, operations included.
void interrupt_busy(tuttiComm_t comm) {
  const UseGuard use = guard_use(comm);
  if (comm->state.load(std::memory_order_seq_cst) == CommState::kBusy)
    comm->communicator->failures().abort();
}

Status in_progress() { return Status(Code::kInProgress, "the communicator is being ended"); }

// A worker makes it, or makes something from it, and ends it when it is done.
Status leave_to_worker(tuttiComm_t comm) {
  if (!comm->config.blocking) return in_progress();
  Backoff backoff(100);
  while (comm->state.load(std::memory_order_acquire) != CommState::kEnded) backoff.pause();
  join_worker(comm);
  comm->state.store(CommState::kNone, std::memory_order_release);
  return comm->outcome;
}

Status end_claimed(tuttiComm_t comm) {
  if (comm->config.blocking) return end_communicator(comm, CommState::kNone);
  start_worker(comm, [comm] { (void)end_communicator(comm, CommState::kEnded); });
  return in_progress();
}

Status end(tuttiComm_t comm, bool abort, const char* call) {
  if (comm == nullptr) return Status::invalid_argument("the communicator is null");
  if (Status status = check_not_inside(*comm, call); !status.ok()) return status;
  if (Status status = check_no_group(comm, call); !status.ok()) return status;
  bool ended_making = false;
  for (;;) {
    const CommState state = comm->state.load(std::memory_order_acquire);
    switch (state) {
      case CommState::kAlive:
      case CommState::kSuspended:
      case CommState::kFinalized:
      case CommState::kRevoked:
        if (claim(comm, state, abort)) return end_claimed(comm);
        break;
      case CommState::kFailed:
        if (!claim(comm, state, abort)) break;
        join_worker(comm);
        comm->state.store(CommState::kNone, std::memory_order_release);
        return {};
      case CommState::kBusy:
        if (abort) interrupt_busy(comm);
        [[fallthrough]];
      case CommState::kMaking:
        if (claim(comm, state, abort)) return leave_to_worker(comm);
        ended_making = abort;
        break;
      case CommState::kPlanned:  // then it is not made, when the group ends
        if (abort) order_abort(comm);
        if (comm->state.load(std::memory_order_acquire) != CommState::kPlanned) break;
        return check_handle(comm);
      case CommState::kEnding:
        if (abort) order_abort(comm);
        [[fallthrough]];
      default:
        // A blocking maker that was told to end may have left nothing before it could be claimed.
        if (ended_making && state == CommState::kNone) return {};
        return check_handle(comm);
    }
  }
}

Status finish_finalizing(tuttiComm_t comm) {
  (void)wait_for_use(comm, kNoDeadline);
  const Status failure = comm->communicator->failure();
  if (failure.ok()) tell(*comm, *comm->communicator, "finalized");
  CommState busy = CommState::kBusy;
  if (!comm->state.compare_exchange_strong(busy, CommState::kFinalized,
                                           std::memory_order_acq_rel)) {
    (void)end_communicator(comm, CommState::kEnded);
  }
  return failure;
}

Status finalize(tuttiComm_t comm) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (Status status = check_not_inside(*comm, "tuttiCommFinalize"); !status.ok()) return status;
  if (Status status = check_no_group(comm, "tuttiCommFinalize"); !status.ok()) return status;
  const ThreadInCall inside;
  CommState alive = CommState::kAlive;
  if (!comm->state.compare_exchange_strong(alive, CommState::kBusy)) return check_handle(comm);
  if (comm->config.blocking) return finish_finalizing(comm);
  start_worker(comm, [comm] { (void)finish_finalizing(comm); });
  return Status(Code::kInProgress, "the communicator is being finalized");
}

Status revoke(tuttiComm_t comm, int flags) {
  if (comm != nullptr) {
    if (Status status = check_not_inside(*comm, "tuttiCommRevoke"); !status.ok()) return status;
  }
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (Status status = check_no_group(comm, "tuttiCommRevoke"); !status.ok()) return status;
  if (flags != TUTTI_REVOKE_DEFAULT) {
    return Status::invalid_argument("tuttiCommRevoke: flags is TUTTI_REVOKE_DEFAULT");
  }
  comm::Communicator& communicator = *comm->communicator;
  Status reason = Status::remote_error("rank " + std::to_string(communicator.rank()) +
                                       " revoked the communicator");
  CommState alive = CommState::kAlive;
  if (!comm->state.compare_exchange_strong(alive, CommState::kRevoked)) return check_handle(comm);
  communicator.failures().abort(std::move(reason));
  comm->in_flight.wait_for_others();
  (void)drain(communicator);
  communicator.give_up();
  tell(*comm, communicator, "revoked");
  return {};
}

// Of a split that gave this rank nothing: told once.
tuttiResult_t take_child_failure(tuttiComm_t comm) {
  Status failure;
  {
    const MutexLock lock(comm->error_mutex);
    failure = std::exchange(comm->failure, Status());
  }
  return report(comm, failure);
}

Status get_failure(tuttiComm_t comm, tuttiResult_t* error) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  *error = take_child_failure(comm);
  // With its words: no call need have failed.
  if (*error == tuttiSuccess) *error = report(comm, comm->communicator->failure());
  return {};
}

Status get_settled(tuttiComm_t comm, CommState state, tuttiResult_t* error) {
  const bool has_failure = state == CommState::kAlive || state == CommState::kSuspended ||
                           state == CommState::kFinalized;
  if (has_failure) return get_failure(comm, error);
  if (state == CommState::kFailed) *error = report(comm, comm->failure);
  if (state == CommState::kRevoked) *error = take_child_failure(comm);
  if (state == CommState::kEnded) *error = report(comm, comm->outcome);
  return {};
}

Status get_async_error(tuttiComm_t comm, tuttiResult_t* error) {
  if (comm == nullptr) return Status::invalid_argument("the communicator is null");
  if (error == nullptr) {
    return Status::invalid_argument("tuttiCommGetAsyncError: error is null");
  }
  *error = tuttiSuccess;
  for (;;) {
    const CommState state = comm->state.load(std::memory_order_acquire);
    switch (state) {
      case CommState::kMaking:
      case CommState::kBusy:
      case CommState::kEnding:
        *error = tuttiInProgress;
        return {};
      case CommState::kAlive:
      case CommState::kSuspended:
      case CommState::kFinalized:
      case CommState::kRevoked:
      case CommState::kFailed:
      case CommState::kEnded:
        if (join_worker(comm, state)) return get_settled(comm, state, error);
        break;
      default:
        return check_handle(comm);
    }
  }
}

Status copy_out(const std::string& answer, char* text, size_t bytes, size_t* needed) {
  if (needed != nullptr) *needed = answer.size() + 1;
  if (text == nullptr || bytes < answer.size() + 1) {
    return Status::invalid_argument("tuttiExplain: the text needs " +
                                    std::to_string(answer.size() + 1) + " bytes");
  }
  std::memcpy(text, answer.c_str(), answer.size() + 1);
  return {};
}

template <class Read>
tuttiResult_t read_number(tuttiComm_t comm, int* number, const char* is_null, const Read& read) {
  return caught(comm, [&]() -> tuttiResult_t {
    const UseGuard use = guard_use(comm);
    Status status = check_readable(comm);
    if (status.ok() && number == nullptr) status = Status::invalid_argument(is_null);
    if (status.ok()) *number = read();
    return report(comm, status);
  });
}

}  // namespace
}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiGetVersion(int* version) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    if (version == nullptr) {
      return report(nullptr, tutti::Status::invalid_argument("tuttiGetVersion: version is null"));
    }
    *version = TUTTI_VERSION;
    return tuttiSuccess;
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return tutti::api::caught(
      comm, [&] { return report(comm, tutti::api::end(comm, false, "tuttiCommDestroy")); });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return tutti::api::caught(
      comm, [&] { return report(comm, tutti::api::end(comm, true, "tuttiCommAbort")); });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return tutti::api::caught(comm, [&] { return report(comm, tutti::api::finalize(comm)); });
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags) {
  return tutti::api::caught(comm, [&] { return report(comm, tutti::api::revoke(comm, flags)); });
}

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* ranks) {
  return tutti::api::read_number(comm, ranks, "tuttiCommCount: ranks is null",
                                 [&] { return comm->communicator->standing().ranks(); });
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  return tutti::api::read_number(comm, rank, "tuttiCommUserRank: rank is null",
                                 [&] { return comm->communicator->standing().rank(); });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error) {
  return tutti::api::caught(comm,
                            [&] { return report(comm, tutti::api::get_async_error(comm, error)); });
}

const char* tuttiGetErrorString(tuttiResult_t result) {
  switch (tutti::api::number_of(result)) {
    case tuttiSuccess:
      return "no error";
    case tuttiUnhandledCudaError:
      return "a CUDA call failed";
    case tuttiSystemError:
      return "the operating system refused something";
    case tuttiInternalError:
      return "a defect in Tutti";
    case tuttiInvalidArgument:
      return "an argument is invalid";
    case tuttiInvalidUsage:
      return "the call is not allowed here and now";
    case tuttiRemoteError:
      return "another rank failed or is gone";
    case tuttiInProgress:
      return "not finished yet";
    case tuttiTimeout:
      return "a deadline passed";
    case tuttiUnsupported:
      return "not supported by this build or machine";
  }
  return "unknown result";
}

const char* tuttiGetLastError(tuttiComm_t comm) { return tutti::api::last_error(comm); }

tuttiResult_t tuttiExplain(tuttiComm_t comm, const char* collective, size_t count,
                           tuttiDataType_t type, char* text, size_t bytes, size_t* needed) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    const tutti::api::UseGuard use = tutti::api::guard_use(comm);
    if (tutti::Status status = tutti::api::check_handle(comm); !status.ok()) {
      return report(comm, status);
    }
    const int number = tutti::api::number_of(type);
    if (number < 0 || number >= tutti::types::kDataTypes) {
      return report(comm, tutti::Status::invalid_argument("tuttiExplain: unknown data type"));
    }
    const auto element = static_cast<tutti::types::DataType>(number);
    // The engine uses the plans that this may replace.
    if (tutti::Status status = tutti::api::drain(*comm->communicator); !status.ok()) {
      return report(comm, status);
    }
    const tutti::Result<std::string> answer = tutti::operation::explain(
        {comm->communicator.get(), collective == nullptr ? "" : collective, count, element});
    if (!answer.ok()) {
      return report(comm, tutti::Status::invalid_argument("tuttiExplain: " +
                                                          std::string(answer.status().message())));
    }
    return report(comm, tutti::api::copy_out(answer.value(), text, bytes, needed));
  });
}

}  // extern "C"
