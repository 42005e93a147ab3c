// The collectives of tutti.h: check every argument, then submit.
#include <string>
#include <utility>

#include "src/api/call.h"
#include "src/api/caught.h"
#include "src/api/device.h"
#include "src/operation/collective_operation.h"
#include "src/schedule/layout.h"

namespace tutti::api {
namespace {

using comm::Request;
using schedule::Collective;

// Whole buffers may be equal where the collective allows it; they never overlap otherwise.
Status check_overlap(const Request& request, uint64_t send_bytes, uint64_t recv_bytes,
                     uint64_t offset_in_place) {
  if (send_bytes == 0 || recv_bytes == 0) return {};
  const auto send = reinterpret_cast<uintptr_t>(request.send);
  const auto recv = reinterpret_cast<uintptr_t>(request.recv);
  if (send + send_bytes <= recv || recv + recv_bytes <= send) return {};
  const bool reversed = schedule::traits_of(request.collective).nests(schedule::Space::kOutput);
  if (reversed ? recv == send + offset_in_place : send == recv + offset_in_place) return {};
  return wrong(request, "send and recv overlap without being in place as tutti.h defines it");
}

Status check_buffers(const Request& request, const comm::Communicator& communicator) {
  schedule::Shape shape;
  shape.collective = request.collective;
  shape.ranks = communicator.ranks();
  shape.root = request.root;
  const uint64_t size = types::size_of(request.type);
  const auto most = ~uint64_t{0} / size / static_cast<uint64_t>(shape.ranks) / 2;
  if (request.count > most) return wrong(request, "count overflows");
  const uint64_t send = schedule::input_elements(shape, communicator.rank(), request.count) * size;
  const uint64_t recv = schedule::output_elements(shape, communicator.rank(), request.count) * size;
  if (send > 0 && request.send == nullptr) return wrong(request, "send is null");
  if (recv > 0 && request.recv == nullptr) return wrong(request, "recv is null");
  const schedule::Traits& traits = schedule::traits_of(request.collective);
  const bool nested =
      traits.nests(schedule::Space::kInput) || traits.nests(schedule::Space::kOutput);
  const auto rank = static_cast<uint64_t>(communicator.rank());
  return check_overlap(request, send, recv, nested ? rank * request.count * size : 0);
}

Status check(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  if (Status status = check_operation(comm, request, stream); !status.ok()) return status;
  if (request.root < 0 || request.root >= comm->communicator->ranks()) {
    return wrong(request, "root is not a rank");
  }
  return check_buffers(request, *comm->communicator);
}

// A few comparisons accept nearly every call; check() judges the rest.
bool is_ordinary(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  if (comm->state.load(std::memory_order_seq_cst) != CommState::kAlive) return false;
  constexpr uint64_t kOrdinaryCount = uint64_t{1} << 32;
  const auto ranks = static_cast<uint64_t>(comm->communicator->ranks());
  const bool known = request.type < types::DataType::kBool && request.op <= types::ReduceOp::kAvg &&
                     static_cast<uint64_t>(request.root) < ranks &&
                     request.count - 1 < kOrdinaryCount;
  if (!known || stream.kind != tuttiStreamBlocking || stream.reserved != 0) return false;
  if (request.send == nullptr || request.recv == nullptr) return false;
  const schedule::Traits& traits = schedule::traits_of(request.collective);
  const bool whole = !traits.input.parts && !traits.output.parts;
  // Neither buffer is longer than this.
  const uint64_t bytes = request.count * types::size_of(request.type) * (whole ? 1 : ranks);
  const auto send = reinterpret_cast<uintptr_t>(request.send);
  const auto recv = reinterpret_cast<uintptr_t>(request.recv);
  return send + bytes <= recv || recv + bytes <= send || (whole && send == recv);
}

// Apart from run(), whose way to the blocking call shall not pay for the operation's place.
[[gnu::noinline]] tuttiResult_t submit_elsewhere(tuttiComm_t comm, const Request& request,
                                                 tuttiStream_t stream, const Handle* handle) {
  operation::CollectiveOperation operation(*comm->communicator, request);
  return submit(comm, std::move(operation), stream, handle);
}

tuttiResult_t run_scaled(tuttiComm_t comm, Request request, int op, tuttiStream_t stream,
                         const Handle* handle);

// In each entry point, for the reason that FastPath::run() gives. `op`: null where nothing is
// reduced, or the request has its operation.
[[gnu::always_inline]] inline tuttiResult_t run(tuttiComm_t comm, Request request,
                                                const tuttiRedOp_t* op, tuttiStream_t stream,
                                                const Handle* handle) {
  if (op != nullptr) {
    const int number = number_of(*op);
    if (number < 0 || number >= types::kReduceOps) [[unlikely]]
      return run_scaled(comm, request, number, stream, handle);
    request.op = static_cast<types::ReduceOp>(number);
  }
  if (comm == nullptr) [[unlikely]]
    return refuse(comm, check_handle(comm));
  const CallGuard guard(comm->in_flight);
  if (!is_ordinary(comm, request, stream)) {
    if (Status status = check(comm, request, stream); !status.ok()) return refuse(comm, status);
  }
  if (request.count == 0 && request.collective != Collective::kBarrier) [[unlikely]]
    return run_nothing(comm);
  const bool is_blocking = stream.kind == tuttiStreamBlocking && !may_have_device_memory();
  if (is_blocking && !in_group()) [[likely]]
    return run_now(comm, [&] { return comm->communicator->collectives().run(request); });
  return submit_elsewhere(comm, request, stream, handle);
}

// The rest of the way is that of any other.
tuttiResult_t run_scaled(tuttiComm_t comm, Request request, int op, tuttiStream_t stream,
                         const Handle* handle) {
  const UseGuard use = guard_use(comm);  // the operations belong to the communicator
  comm::Extras extras;
  const Status status = take_scaled(comm, op, request, extras);
  return status.ok() ? run(comm, request, nullptr, stream, handle) : refuse(comm, status);
}

}  // namespace

tuttiResult_t run_nothing(tuttiComm_t comm) {
  const Status failure = comm->communicator->failure();
  return failure.ok() ? tuttiSuccess : refuse(comm, failure);
}

Status wrong(const Request& request, const std::string& what) {
  return Status::invalid_argument(std::string(comm::name_of(request)) + ": " + what);
}

Status check_operation(tuttiComm_t comm, const Request& request, tuttiStream_t stream) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  if (Status status = check_stream(stream); !status.ok()) return status;
  if (static_cast<int>(request.type) >= types::kDataTypes) {
    return wrong(request, "unknown data type");
  }
  const bool scaled = request.op == types::ReduceOp::kScaledSum && request.extras != nullptr;
  if (static_cast<int>(request.op) >= types::kReduceOps && !scaled) {
    return wrong(request, "unknown reduction operation");
  }
  if (schedule::reduces(request.collective) && !types::can_reduce(request.type, request.op)) {
    return wrong(request, std::string(types::name_of(request.op)) + " of " +
                              types::name_of(request.type) + ": " +
                              (types::is_bitwise(request.op) ? "bitwise operations are for integers"
                                                             : "bools have sums and products") +
                              "; see tuttiRedOp_t");
  }
  return {};
}

Status take_scaled(tuttiComm_t comm, int op, Request& request, comm::Extras& extras) {
  if (Status status = check_handle(comm); !status.ok()) return status;
  const ScaledSum* const operation = comm->scaled_sums.find(op);
  if (operation == nullptr) {
    return wrong(request,
                 "unknown reduction operation " + std::to_string(op) + " of this communicator");
  }
  if (operation->type != request.type) {
    return wrong(request,
                 std::string("the operation was made for ") + types::name_of(operation->type));
  }
  if (request.extras != nullptr) extras = *request.extras;
  extras.scalar = operation->scalar;
  request.op = types::ReduceOp::kScaledSum;
  request.extras = &extras;
  return {};
}

Request make_request(Collective collective, const void* send, void* recv, size_t count,
                     const tuttiDataType_t& type) {
  Request request;
  request.collective = collective;
  request.type = narrow<types::DataType>(type);
  request.count = count;
  request.send = send;
  request.recv = recv;
  return request;
}

tuttiResult_t run_collective(tuttiComm_t comm, Request request, const tuttiRedOp_t& op,
                             tuttiStream_t stream, const Handle* handle) {
  const tuttiRedOp_t* const reduced = schedule::reduces(request.collective) ? &op : nullptr;
  return run(comm, request, reduced, stream, handle);
}

}  // namespace tutti::api

using tutti::api::make_request;
using tutti::api::run;
using tutti::schedule::Collective;

extern "C" {

tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count, tuttiDataType_t type,
                             tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return run(comm, make_request(Collective::kAllReduce, send, recv, count, type), &op, stream,
               nullptr);
  });
}

tuttiResult_t tuttiAllGather(const void* send, void* recv, size_t count, tuttiDataType_t type,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return run(comm, make_request(Collective::kAllGather, send, recv, count, type), nullptr, stream,
               nullptr);
  });
}

tuttiResult_t tuttiReduceScatter(const void* send, void* recv, size_t count, tuttiDataType_t type,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return run(comm, make_request(Collective::kReduceScatter, send, recv, count, type), &op, stream,
               nullptr);
  });
}

tuttiResult_t tuttiBroadcast(const void* send, void* recv, size_t count, tuttiDataType_t type,
                             int root, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    auto request = make_request(Collective::kBroadcast, send, recv, count, type);
    request.root = root;
    return run(comm, request, nullptr, stream, nullptr);
  });
}

tuttiResult_t tuttiReduce(const void* send, void* recv, size_t count, tuttiDataType_t type,
                          tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    auto request = make_request(Collective::kReduce, send, recv, count, type);
    request.root = root;
    return run(comm, request, &op, stream, nullptr);
  });
}

tuttiResult_t tuttiGather(const void* send, void* recv, size_t count, tuttiDataType_t type,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    auto request = make_request(Collective::kGather, send, recv, count, type);
    request.root = root;
    return run(comm, request, nullptr, stream, nullptr);
  });
}

tuttiResult_t tuttiScatter(const void* send, void* recv, size_t count, tuttiDataType_t type,
                           int root, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    auto request = make_request(Collective::kScatter, send, recv, count, type);
    request.root = root;
    return run(comm, request, nullptr, stream, nullptr);
  });
}

tuttiResult_t tuttiAllToAll(const void* send, void* recv, size_t count, tuttiDataType_t type,
                            tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return run(comm, make_request(Collective::kAllToAll, send, recv, count, type), nullptr, stream,
               nullptr);
  });
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::api::caught(comm, [&] {
    return run(comm, make_request(Collective::kBarrier, nullptr, nullptr, 0, tuttiInt8), nullptr,
               stream, nullptr);
  });
}

}  // extern "C"
