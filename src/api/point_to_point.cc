// Send, receive and groups of tutti.h.
#include <string>

#include "src/api/call.h"
#include "src/api/caught.h"
#include "src/types/types.h"

namespace tutti::api {
namespace {

Status check(tuttiComm_t comm, const TransferArguments& message, tuttiStream_t stream) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (Status status = check_stream(stream); !status.ok()) return status;
  const auto refusal = [&](const char* why) {
    return Status::invalid_argument(std::string(message.is_send ? "send: " : "recv: ") + why);
  };
  if (message.type < 0 || message.type >= types::kDataTypes) return refusal("unknown data type");
  if (message.peer < 0 || message.peer >= comm->communicator->ranks()) {
    return refusal("peer is not a rank");
  }
  if (message.count > 0 && message.memory == nullptr) return refusal("the buffer is null");
  if (message.count > ~uint64_t{0} / 16) return refusal("count overflows");
  return {};
}

}  // namespace

tuttiResult_t run_transfer(tuttiComm_t comm, const TransferArguments& message, tuttiStream_t stream,
                           const comm::Extras* extras, const Handle* handle) {
  if (comm == nullptr) return refuse(comm, check_handle(comm));
  const CallGuard guard(comm->in_flight);
  if (Status status = check(comm, message, stream); !status.ok()) return refuse(comm, status);
  exec::Transfer transfer;
  transfer.peer = static_cast<uint32_t>(message.peer);
  transfer.is_send = message.is_send;
  transfer.data = static_cast<std::byte*>(const_cast<void*>(message.memory));
  transfer.type = static_cast<types::DataType>(message.type);
  transfer.bytes = message.count * types::size_of(transfer.type);
  if (message.peer == comm->communicator->rank() && !in_group()) {
    return refuse(
        comm,
        Status::invalid_usage(
            (message.is_send ? "send to rank " : "recv from rank ") + std::to_string(message.peer) +
            ", which is this one: put the send and an equal receive into one group"));
  }
  return submit(comm, transfer, stream, extras, handle);
}

}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiSend(const void* send, size_t count, tuttiDataType_t type, int peer,
                        tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return tutti::api::run_transfer(comm, {send, count, tutti::api::number_of(type), peer, true},
                                    stream);
  });
}

tuttiResult_t tuttiRecv(void* recv, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return tutti::api::run_transfer(comm, {recv, count, tutti::api::number_of(type), peer, false},
                                    stream);
  });
}

tuttiResult_t tuttiGroupStart(void) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::group_start(); });
}

tuttiResult_t tuttiGroupEnd(void) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::group_end(); });
}

tuttiResult_t tuttiGroupSimulateEnd(uint64_t* nanoseconds) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::group_simulate_end(nanoseconds); });
}

tuttiResult_t tuttiGroupDiscard(void) {
  return tutti::api::caught(nullptr, [&] { return tutti::api::group_discard(); });
}

}  // extern "C"
