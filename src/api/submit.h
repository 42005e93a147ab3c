// The way of a checked operation: into the open group, the calling thread, or the engine.
#pragma once

#include <exception>
#include <memory>

#include "src/api/handle.h"
#include "src/api/making.h"
#include "src/api/registration.h"
#include "src/comm/request.h"
#include "src/comm/task.h"

namespace tutti::api {

/// Is told of an operation's outcome if submit() does not return it.
using Handle = std::shared_ptr<comm::Completion>;

/// Whether operations of this thread wait for the end of its group.
bool in_group();
/// In this thread, behind what is queued. `what` is for Communicator::run(); what it throws becomes
/// the communicator's failure.
template <class... Arguments>
[[gnu::always_inline]] inline Status run_behind(comm::Communicator& communicator,
                                                const Arguments&... what) {
  if (communicator.pending.load(std::memory_order_acquire) > 0) [[unlikely]] {
    if (Status status = drain(communicator); !status.ok()) return status;
  }
  try {
    return communicator.run(what...);
  } catch (const std::exception& error) {
    return communicator.end_after(error);
  }
}
/// The same, and reported: what submit() does outside groups on a BLOCKING stream.
template <class... Arguments>
[[gnu::always_inline]] inline tuttiResult_t run_now(tuttiComm_t comm, const Arguments&... what) {
  const Status status = run_behind(*comm->communicator, what...);
  return status.ok() ? tuttiSuccess : report(comm, status);
}
tuttiResult_t submit(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream,
                     const Handle* handle = nullptr);
tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream,
                     const comm::Extras* extras = nullptr, const Handle* handle = nullptr);

tuttiResult_t submit(tuttiComm_t comm, const comm::Access& access, tuttiStream_t stream);

Status check_stream(tuttiStream_t stream);

/// report(), for a call that belongs to the open group, if there is one: the group runs nothing.
tuttiResult_t refuse(tuttiComm* comm, const Status& status);

/// The making belongs to the open group from now on; false if there is none.
bool add_to_group(const Making& making);
bool add_to_group(const RegistrationCall& registration);
/// The open group holds operations on the communicator.
bool group_operates_on(const tuttiComm* comm);
/// It holds anything that needs the communicator.
bool group_uses(const tuttiComm* comm);

tuttiResult_t group_start();
tuttiResult_t group_end();
tuttiResult_t group_simulate_end(uint64_t* nanoseconds);
tuttiResult_t group_discard();
/// Whether the open group of this thread holds the operation that tells `handle`.
bool waits_for_group_end(const Handle& handle);

}  // namespace tutti::api
