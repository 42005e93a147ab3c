// The way of a checked operation: into the open group, the calling thread, or the engine.
#pragma once

#include <memory>

#include "src/api/handle.h"
#include "src/api/pending_init.h"
#include "src/api/registration.h"
#include "src/operation/operation.h"

namespace tutti::api {

/// Is told of an operation's outcome if submit() does not return it.
using Handle = std::shared_ptr<operation::Completion>;

/// Whether operations of this thread wait for the end of its group.
bool in_group();
/// `handle`: null or the caller's.
tuttiResult_t submit(tuttiComm_t comm, operation::Operation&& operation, tuttiStream_t stream,
                     const Handle* handle = nullptr);
/// The same of a transfer, of which most groups have nothing else.
tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream,
                     const comm::Extras* extras, const Handle* handle);

Status check_stream(tuttiStream_t stream);

/// report(), for a call that belongs to the open group, if there is one: the group runs nothing.
tuttiResult_t refuse(tuttiComm* comm, const Status& status);

/// The making belongs to the open group from now on; false if there is none.
bool add_to_group(const PendingInit& pending);
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
