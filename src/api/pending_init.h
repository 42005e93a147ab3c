// How communicators come to be, whatever they are made from: the handle at once, the rank behind it
// in this call, at the end of the thread's group, or in a thread of its own.
//
// Owns: a PendingInit owns its initializer, never the handle. Threads: as the functions say; an
// initializer runs once, in one thread, and captures by value what it needs. Errors: what could not
// be made is reported by the call, by the outermost group end, or kept in the handle for
// tuttiCommGetAsyncError.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/api/handle.h"
#include "src/base/wait_limit.h"

namespace tutti::api {

using Initializer = std::function<Result<std::unique_ptr<comm::Communicator>>(const WaitLimit&)>;

struct PendingInit {
  Initializer make;             // null in a good result: no communicator
  tuttiComm* handle = nullptr;  // null: this rank gets none
  tuttiComm_t* out = nullptr;   // where the caller finds the handle; used until the call is over.
                                // Null: the caller is gone, and the handle stays as a failed one
  tuttiComm* parent = nullptr;  // busy meanwhile
  CommState parent_was = CommState::kAlive;
  bool revives_parent = false;  // once it is done, the parent is alive, whatever it was
  bool blocking = true;
  std::string who;           // for errors: "rank 2 of 3"; empty: the initializer finds out
  exec::StreamPlace device;  // that was current in the calling thread
  std::shared_ptr<Cancellation> cancellation;  // from run_inits() on
};

/// The error of a rank that could not begin to be made.
Status of_rank(const std::string& who, const Status& status);

/// A pending init for a new handle, which *out gets at once. `out` is not null.
Result<PendingInit> plan_init(tuttiComm_t* out, const CommConfig& config, Initializer make);

/// Now, or with the open group.
tuttiResult_t make_communicator(PendingInit pending);

/// OK if they may run: a fork leaves those of an open group to the parent.
Status check_inits(const std::vector<PendingInit>& pending_inits);
/// All of them at once. The first error, kInProgress if some go on behind the caller's back, or OK.
Status run_inits(std::vector<PendingInit> pending_inits);
/// The parent of a pending init is free again, in this state; whoever ended it meanwhile has left
/// that to this call.
void free_parent(const PendingInit& pending, CommState state);
/// For a group that runs nothing.
void drop_inits(const std::vector<PendingInit>& pending_inits, const Status& reason);

/// Runs `work` in a thread of the handle; in this one if there can be none.
void start_worker(tuttiComm* handle, const std::function<void()>& work);
/// Waits for the handle's worker, which is done or about to be.
void join_worker(tuttiComm* handle);
/// The same in a state in which it is done. Another thread may change that state and start the next
/// worker at any time, which is not waited for: then false.
bool join_worker(tuttiComm* handle, CommState settled);
/// After a change of state, until nobody is in a call on the handle and nothing is queued; false if
/// the wait limit is over before. An abort may come while a destroy, a finalize or an edit waits
/// here, and then what it waits for ends soon.
bool wait_for_use(tuttiComm* handle, const WaitLimit& wait_limit);
/// The handle is to be ended by an abort, and what is being made of it or from it ends now: with an
/// error, here and on the other ranks. From any thread.
void order_abort(tuttiComm* handle);
/// By the initializer of a busy parent: the handle stands for the next epoch's communicator from
/// now on, and this epoch's ends. `windows` runs while nobody is in a call and both are there.
/// kRemoteError: somebody ended the handle meanwhile.
Status move_over(tuttiComm* handle, std::unique_ptr<comm::Communicator> next,
                 const std::function<void()>& windows);
/// Ends the communicator of a handle in state kEnding, as `abort` says, and stores `ended`. An
/// error says that a peer is still inside a window's memory.
Status end_communicator(tuttiComm* handle, CommState ended);

}  // namespace tutti::api
