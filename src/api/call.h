// Operations as tutti.h's functions and tuttiSubmit() both begin them: arguments unchecked, what C
// callers may pass still as numbers.
#pragma once

#include <string>

#include "src/api/submit.h"

namespace tutti::api {

/// A request with nothing but the arguments that every collective has.
comm::Request make_request(schedule::Collective collective, const void* send, void* recv,
                           size_t count, const tuttiDataType_t& type);

/// Checks, then submits. `op` counts where the collective reduces.
tuttiResult_t run_collective(tuttiComm_t comm, comm::Request request, const tuttiRedOp_t& op,
                             tuttiStream_t stream, const Handle* handle = nullptr);
/// The same for a request with count vectors, which need not say how many ranks there are. Its
/// count is what an all_gather_v sends.
tuttiResult_t run_vectors(tuttiComm_t comm, comm::Request request, const tuttiRedOp_t& op,
                          tuttiStream_t stream, const Handle* handle = nullptr);

/// The refusal of a call: "all_reduce: " and `what`.
Status wrong(const comm::Request& request, const std::string& what);
/// A call in which no rank moves anything still tells that its communicator failed.
tuttiResult_t run_nothing(tuttiComm_t comm);
/// Checks the parts that every operation on data must have: a handle that takes calls, a stream, a
/// type, an operation.
Status check_operation(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream);
/// Puts the user's own operation `op` into the request: a sum, scaled by what `extras` then holds.
Status take_scaled(tuttiComm_t comm, int op, comm::Request& request, comm::Extras& extras);

struct TransferArguments {
  const void* memory;
  size_t count;
  int type;  // a tuttiDataType_t, if it is one
  int peer;
  bool is_send;
};

tuttiResult_t run_transfer(tuttiComm_t comm, const TransferArguments& message, tuttiStream_t stream,
                           const comm::Extras* extras = nullptr, const Handle* handle = nullptr);

/// The options in force for a call or communicator that is given these; null: the defaults.
Result<comm::CallOptions> read_options(tuttiComm_t comm, const tuttiOptions_t* options);

}  // namespace tutti::api
