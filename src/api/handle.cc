#include "src/api/handle.h"

#include <new>

#include "src/base/caught.h"
#include "src/base/per_thread.h"
#include "src/base/wait.h"

namespace tutti::api {
namespace {

// tidy: allow mutable (what is left to a thread that has no memory for its last error)
constinit thread_local bool thread_has_no_words = false;
// tidy: allow mutable (what a thread may call depends on what it is in)
constinit thread_local int callback_depth = 0;

Status& thread_error() { return PerThread<Status, struct ThreadError>::get(); }

/// Where there is no memory for the name of the communicator, the message has none.
Status with_name(const tuttiComm* comm, const Status& status) {
  if (comm == nullptr || comm->config.name.empty()) return status;
  try {
    return Status(status.code(),
                  "communicator '" + comm->config.name + "': " + std::string(status.message()));
  } catch (const std::bad_alloc&) {
    return status;
  }
}

const char* words_of(const Status& status) { return status.ok() ? "" : status.message().data(); }

}  // namespace

tuttiResult_t result_of(Code code) {
  switch (code) {
    case Code::kOk:
      return tuttiSuccess;
    case Code::kInvalidArgument:
      return tuttiInvalidArgument;
    case Code::kInvalidUsage:
      return tuttiInvalidUsage;
    case Code::kSystemError:
      return tuttiSystemError;
    case Code::kInternalError:
      return tuttiInternalError;
    case Code::kRemoteError:
      return tuttiRemoteError;
    case Code::kTimeout:
      return tuttiTimeout;
    case Code::kUnsupported:
      return tuttiUnsupported;
    case Code::kInProgress:
      return tuttiInProgress;
  }
  return tuttiInternalError;
}

bool is_inherited(const tuttiComm& comm) {
  return comm.state.load(std::memory_order_relaxed) == CommState::kInherited;
}

Status inherited(const char* what) {
  return Status::invalid_usage(std::string(what) +
                               " was made before a fork and belongs to the parent process; what "
                               "this process uses it must make itself");
}

tuttiResult_t report(tuttiComm* comm, const Status& status) {
  if (status.ok()) return tuttiSuccess;
  const Status told = with_name(comm, status);
  thread_has_no_words = true;
  attempt([&] {
    thread_error() = told;
    thread_has_no_words = false;
  });
  if (comm != nullptr && !is_inherited(*comm)) {
    const MutexLock lock(comm->error_mutex);
    comm->last_error = told;
  }
  return result_of(status.code());
}

const char* last_error(tuttiComm* comm) {
  const char* words = words_of(status_of(std::bad_alloc()));
  attempt([&] {
    if (comm == nullptr || is_inherited(*comm)) {
      if (!thread_has_no_words) words = words_of(thread_error());
      return;
    }
    // Another thread may replace the communicator's own message.
    Status& copy = PerThread<Status, struct CommunicatorError>::get();
    const MutexLock lock(comm->error_mutex);
    copy = comm->last_error;
    words = words_of(copy);
  });
  return words;
}

namespace {

Status refusal(tuttiComm_t comm, CommState state) {
  switch (state) {
    case CommState::kAlive:
      return {};
    case CommState::kPlanned:
      return Status::invalid_usage(
          "the communicator is made by the end of the open group and cannot be used before");
    case CommState::kMaking:
      return Status::invalid_usage(
          "the communicator is being made: poll tuttiCommGetAsyncError until it no longer says "
          "tuttiInProgress");
    case CommState::kFailed:
      return Status::invalid_usage("the communicator could not be made, destroy it: " +
                                   std::string(comm->failure.message()));
    case CommState::kBusy:
      return Status::invalid_usage(
          "the communicator is being split, shrunk, grown or finalized: poll "
          "tuttiCommGetAsyncError until it no longer says tuttiInProgress, or end the group");
    case CommState::kSuspended:
      return Status::invalid_usage(
          "the communicator is suspended and has no memory for calls: resume it on all ranks "
          "(tuttiCommResume() or ncclCommResume()), or destroy it");
    case CommState::kFinalized:
      return Status::invalid_usage("the communicator is finalized and can only be destroyed");
    case CommState::kRevoked:
      return Status::invalid_usage(
          "the communicator is revoked: it can only be shrunk, split or destroyed");
    case CommState::kInherited:
      return inherited("the communicator");
    case CommState::kEnding:
    case CommState::kEnded:
    case CommState::kNone:
      break;
  }
  return Status::invalid_usage("the communicator has been destroyed, or is none");
}

}  // namespace

Status refuse_handle(tuttiComm_t comm) {
  if (comm == nullptr) return Status::invalid_argument("the communicator is null");
  return refusal(comm, comm->state.load(std::memory_order_seq_cst));
}

Status check_readable(tuttiComm_t comm) {
  if (comm == nullptr) return Status::invalid_argument("the communicator is null");
  const CommState state = comm->state.load(std::memory_order_seq_cst);
  const bool readable = state == CommState::kBusy || state == CommState::kSuspended ||
                        state == CommState::kFinalized || state == CommState::kRevoked;
  return readable ? Status() : refusal(comm, state);
}

InCallback::InCallback() { ++callback_depth; }
InCallback::~InCallback() { --callback_depth; }

Status check_can_wait(const char* call) {
  if (callback_depth == 0) return {};
  return Status::invalid_usage(std::string(call) +
                               " would wait for operations in the callback of a request, perhaps "
                               "for those of the thread it runs in; let another thread do it");
}

Status drain(const comm::Communicator& communicator) {
  Backoff backoff(100);
  while (communicator.pending.load(std::memory_order_acquire) > 0) {
    if (Status status = check_can_wait("this call"); !status.ok()) return status;
    backoff.pause();
  }
  return {};
}

}  // namespace tutti::api
