// The objects behind the opaque handles of tutti.h.
//
// Lifetime: a destroyed communicator's shell stays (a few hundred bytes), so that a stale handle is
// an error and not a crash. Threads: `state` orders everything else: what a thread writes before it
// stores the state, others read after they have loaded it. A thread that uses
// `communicator` says so by `in_flight` before it loads the state, and the end of the communicator
// waits for it.
#pragma once

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "include/tutti/tutti.h"
#include "src/api/config.h"
#include "src/api/departure.h"
#include "src/api/in_flight_calls.h"
#include "src/api/scaled_sums.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/comm/communicator.h"
#include "src/operation/engine.h"

namespace tutti::api {

enum class CommState : uint32_t {
  kNone = 0,   // never made, or destroyed
  kPlanned,    // made by the end of the group that is open
  kMaking,     // a worker makes it
  kFailed,     // it could not be made: `failure`
  kAlive,      // every call is allowed
  kBusy,       // children are made from it, or it is finalized: a worker uses it
  kSuspended,  // it has given its device memory back: only to be resumed or destroyed
  kFinalized,  // only to be destroyed
  kRevoked,    // only to be shrunk, split or destroyed
  kEnding,     // destroyed or aborted, but a worker is not done with it
  kEnded,      // that worker is done
  kInherited,  // this process is a forked child of the one that made it, and may not touch it
};

}  // namespace tutti::api

struct tuttiComm {
  std::atomic<tutti::api::CommState> state{tutti::api::CommState::kNone};
  std::unique_ptr<tutti::comm::Communicator> communicator;
  tutti::api::InFlightCalls in_flight;
  tutti::Mutex error_mutex;
  // Of the threads that call, never of a worker.
  tutti::Status last_error TUTTI_GUARDED_BY(error_mutex);
  tutti::api::CommConfig config;
  tutti::api::ScaledSums scaled_sums;
  tutti::api::PendingTeardowns* teardowns = nullptr;  // of its process
  // Why it was not made; or a child this rank is no member of, then under error_mutex.
  tutti::Status failure;
  tutti::Status outcome;           // of its end, once a worker has ended it
  std::atomic<bool> abort{false};  // how to end it; from false to true only
  // Of what is being made of it or from it; under error_mutex, null meanwhile in no such thing.
  std::shared_ptr<tutti::Cancellation> cancellation;
  tutti::Mutex worker_mutex;
  std::thread worker TUTTI_GUARDED_BY(worker_mutex);  // joined by whoever sees that it is done
};

/// One operation's outcome. Kept by the process and used again, so a handle that was waited for is
/// an error and not a crash until then.
struct tuttiRequest {
  static constexpr uint32_t kAlive = 0x72657175;
  static constexpr uint32_t kWaited = 0x77616974;     // a thread waits for it, and will free it
  static constexpr uint32_t kInherited = 0x666f726b;  // as CommState::kInherited

  std::atomic<uint32_t> state{0};
  std::shared_ptr<tutti::operation::Completion> completion =
      std::make_shared<tutti::operation::Completion>();
};

/// One rank's handle of a window; its shell stays, as a communicator's does.
struct tuttiWindow {
  std::atomic<tuttiComm_t> comm{nullptr};  // null: deregistered
  tutti::comm::Window* window = nullptr;
};

namespace tutti::api {

/// The handle of a HOST stream.
struct HostStream {
  std::shared_ptr<operation::Completion> completion = std::make_shared<operation::Completion>();
  bool inherited = false;  // as CommState::kInherited
};

/// A C caller may pass any integer as an enumeration; reading it as one would be undefined.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// Values the enumerations do not have stay unknown when they are narrowed.
template <class Narrow, class Wide>
Narrow narrow(const Wide& value) {
  const int number = number_of(value);
  return static_cast<Narrow>(number < 0 || number > 0xff ? 0xff : number);
}

tuttiResult_t result_of(Code code);

/// Nothing behind the handle may be touched, its locks included: a thread of the parent's may have
/// held one when the process was forked.
bool is_inherited(const tuttiComm& comm);
/// The refusal of what was made before a fork: "the communicator".
Status inherited(const char* what);

/// Keeps the message for tuttiGetLastError and returns the code. `comm` may be null.
tuttiResult_t report(tuttiComm* comm, const Status& status);
/// Valid until the thread asks again.
const char* last_error(tuttiComm* comm);

/// A UseGuard of a communicator that may be null; made before check_handle(), held while it is
/// used.
inline UseGuard guard_use(tuttiComm_t comm) {
  return UseGuard(comm == nullptr ? nullptr : &comm->in_flight);
}

/// The answer of check_handle() about a handle that is not alive.
Status refuse_handle(tuttiComm_t comm);
/// OK if every call is allowed.
inline Status check_handle(tuttiComm_t comm) {
  const bool is_alive =
      comm != nullptr && comm->state.load(std::memory_order_seq_cst) == CommState::kAlive;
  return is_alive ? Status() : refuse_handle(comm);
}
/// OK if its rank, its size and its failure can be asked: also while something is made from it, and
/// when it is suspended, finalized or revoked.
Status check_readable(tuttiComm_t comm);

/// While it exists this thread is in the callback of a request.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};
/// Refuses `call` in a callback: it waits for operations, perhaps for those of this very thread.
Status check_can_wait(const char* call);

/// Until nothing queued or running on the communicator is left. In a callback: only if that is so.
[[nodiscard]] Status drain(const comm::Communicator& communicator);

/// Runs `work` in this thread, behind all that is queued, and returns its outcome. An exception
/// becomes the communicator's failure.
template <class Work>
[[gnu::always_inline]] inline Status run_behind(comm::Communicator& communicator,
                                                const Work& work) {
  if (communicator.pending.load(std::memory_order_acquire) > 0) [[unlikely]] {
    if (Status status = drain(communicator); !status.ok()) return status;
  }
  try {
    return work();
  } catch (const std::exception& error) {
    return communicator.end_after(error);
  }
}
/// The same, and reported.
template <class Work>
[[gnu::always_inline]] inline tuttiResult_t run_now(tuttiComm_t comm, const Work& work) {
  const Status status = run_behind(*comm->communicator, work);
  return status.ok() ? tuttiSuccess : report(comm, status);
}

}  // namespace tutti::api
