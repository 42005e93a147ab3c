// Calls with options and handles of their own: tuttiSubmit, tuttiCommSetOptions.
#include "src/api/call.h"

#include <cstddef>
#include <string>

#include "src/api/caught.h"
#include "src/api/config.h"
#include "src/api/process.h"
#include "src/api/structure.h"
#include "src/base/clock.h"
#include "src/codecs/wire.h"

namespace tutti::api {
namespace {

using schedule::Collective;

Status set_options(tuttiComm_t comm, const tuttiOptions_t* options) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  Result<comm::CallOptions> wanted = read_options(comm, options);
  if (!wanted.ok()) return wanted.status();
  if (Status status = drain(*comm->communicator); !status.ok()) return status;
  comm->communicator->set_options(wanted.value());
  return {};
}

struct Target {
  tuttiComm_t comm;
  tuttiStream_t stream;
  const comm::Extras* extras;
  const Handle* handle;
};

tuttiResult_t run(const tuttiCall_t& call, Collective collective, const Target& target) {
  comm::Request request = make_request(collective, call.send, call.recv, call.count, call.type);
  if (schedule::traits_of(collective).rooted()) request.root = call.root;
  request.extras = target.extras;
  return run_collective(target.comm, request, call.op, target.stream, target.handle);
}

// `view` has what the collective reads of the call's vectors.
tuttiResult_t run(const tuttiCall_t& call, Collective collective, const comm::CountView& view,
                  const Target& target) {
  comm::Request request = make_request(collective, call.send, call.recv, call.count, call.type);
  request.counts = &view;
  request.extras = target.extras;
  return run_vectors(target.comm, request, call.op, target.stream, target.handle);
}

tuttiResult_t run_barrier(const Target& target) {
  tuttiCall_t nothing = TUTTI_CALL_INITIALIZER;
  return run(nothing, Collective::kBarrier, target);
}

tuttiResult_t run_transfer(const tuttiCall_t& call, bool is_send, const Target& target) {
  const TransferArguments message{is_send ? call.send : call.recv, call.count, number_of(call.type),
                                  call.root, is_send};
  return run_transfer(target.comm, message, target.stream, target.extras, target.handle);
}

tuttiResult_t dispatch(const tuttiCall_t& call, const Target& target) {
  switch (number_of(call.collective)) {
    case tuttiCollAllReduce:
      return run(call, Collective::kAllReduce, target);
    case tuttiCollAllGather:
      return run(call, Collective::kAllGather, target);
    case tuttiCollReduceScatter:
      return run(call, Collective::kReduceScatter, target);
    case tuttiCollBroadcast:
      return run(call, Collective::kBroadcast, target);
    case tuttiCollReduce:
      return run(call, Collective::kReduce, target);
    case tuttiCollGather:
      return run(call, Collective::kGather, target);
    case tuttiCollScatter:
      return run(call, Collective::kScatter, target);
    case tuttiCollAllToAll:
      return run(call, Collective::kAllToAll, target);
    case tuttiCollBarrier:
      return run_barrier(target);
    case tuttiCollAllGatherV:
      return run(call, Collective::kAllGather,
                 {.recv_counts = call.recv_counts, .recv_offsets = call.recv_offsets}, target);
    case tuttiCollReduceScatterV:
      return run(call, Collective::kReduceScatter, {.send_counts = call.send_counts}, target);
    case tuttiCollAllToAllV:
      return run(call, Collective::kAllToAll,
                 {.send_counts = call.send_counts,
                  .send_offsets = call.send_offsets,
                  .recv_counts = call.recv_counts,
                  .recv_offsets = call.recv_offsets},
                 target);
    case tuttiCollSend:
      return run_transfer(call, true, target);
    case tuttiCollRecv:
      return run_transfer(call, false, target);
  }
  return refuse(target.comm, Status::invalid_argument("tuttiSubmit: unknown collective " +
                                                      std::to_string(number_of(call.collective))));
}

// Outside of groups nobody is told of a call on a BLOCKING stream: it is over when this returns.
tuttiResult_t timed(const tuttiCall_t& call, const Target& target) {
  if (target.stream.kind != tuttiStreamBlocking || in_group()) return dispatch(call, target);
  struct Ended {
    operation::Completion& completion;
    ~Ended() { completion.finish({}); }
  };
  const Ended ended{**target.handle};
  ended.completion.add();
  ended.completion.begin(monotonic_ns());
  return dispatch(call, target);
}

Status read_call(const tuttiCall_t* call, tuttiCall_t& known) {
  constexpr size_t kFieldEnds[] = {
      offsetof(tuttiCall_t, send_counts), offsetof(tuttiCall_t, send_offsets),
      offsetof(tuttiCall_t, recv_counts), offsetof(tuttiCall_t, recv_offsets),
      offsetof(tuttiCall_t, type),        offsetof(tuttiCall_t, op),
      offsetof(tuttiCall_t, root),        sizeof(tuttiCall_t),
  };
  const Status status = call == nullptr ? Status::invalid_argument("it is null")
                                        : read_structure(call, kFieldEnds, &known);
  if (status.ok()) return {};
  return Status::invalid_argument("tuttiSubmit: call: " + std::string(status.message()) +
                                  "; begin with TUTTI_CALL_INITIALIZER");
}

tuttiResult_t submit_call(const tuttiCall_t* call, Target target, const tuttiOptions_t* options,
                          tuttiRequest_t* request) {
  if (request != nullptr) *request = nullptr;
  const UseGuard use = guard_use(target.comm);
  if (Status status = check_handle(target.comm); !status.ok()) return refuse(target.comm, status);
  tuttiCall_t known = TUTTI_CALL_INITIALIZER;
  if (Status status = read_call(call, known); !status.ok()) return refuse(target.comm, status);
  comm::Extras extras;
  if (options != nullptr) {
    Result<comm::CallOptions> wanted = read_options(target.comm, options);
    if (!wanted.ok()) return refuse(target.comm, wanted.status());
    extras.options = std::move(wanted).value();
  }
  target.extras = &extras;
  if (request == nullptr) return dispatch(known, target);
  Result<Process*> process = Process::current();
  if (!process.ok()) return refuse(target.comm, process.status());
  tuttiRequest* made = process.value()->new_request();
  target.handle = &made->completion;
  const tuttiResult_t result = caught(target.comm, [&] { return timed(known, target); });
  if (result == tuttiSuccess) {
    *request = made;
  } else {
    process.value()->free_request(made);
  }
  return result;
}

}  // namespace

Result<comm::CallOptions> read_options(tuttiComm_t comm, const tuttiOptions_t* options) {
  comm::CallOptions wanted;
  wanted.wire = comm->communicator->made_with().membership.wire;
  if (options != nullptr) {
    constexpr size_t kFieldEnds[] = {
        offsetof(tuttiOptions_t, deterministic),
        offsetof(tuttiOptions_t, priority),
        offsetof(tuttiOptions_t, timeout_ns),
        offsetof(tuttiOptions_t, engine),
        offsetof(tuttiOptions_t, wire),
        offsetof(tuttiOptions_t, least_ctas),
        sizeof(tuttiOptions_t),
    };
    tuttiOptions_t known = TUTTI_OPTIONS_INITIALIZER;
    if (Status status = read_structure(options, kFieldEnds, &known); !status.ok()) {
      return Status::invalid_argument("options: " + std::string(status.message()) +
                                      "; begin with TUTTI_OPTIONS_INITIALIZER");
    }
    if (known.algorithm != nullptr) wanted.algorithm = known.algorithm;
    if (known.deterministic != 0 && known.deterministic != 1) {
      return Status::invalid_argument("options: deterministic is " +
                                      std::to_string(known.deterministic) + ", not 0 or 1");
    }
    const std::optional<EngineWish> engine = engine_of(known.engine);
    if (!engine || known.reserved != 0) {
      return Status::invalid_argument("options: engine is " + std::to_string(known.engine) +
                                      ", which is none, or reserved is not 0");
    }
    if (std::string wrong = check_ctas(known.least_ctas, known.most_ctas); !wrong.empty()) {
      return Status::invalid_argument("options: " + wrong);
    }
    wanted.engine = *engine;
    wanted.least_ctas = static_cast<uint32_t>(known.least_ctas);
    wanted.most_ctas = static_cast<uint32_t>(known.most_ctas);
    wanted.deterministic = known.deterministic != 0;
    if (known.wire != nullptr) {
      const Result<codecs::WireOption> wire = codecs::parse_wire(known.wire);
      if (!wire.ok()) {
        return Status::invalid_argument("options: wire: " + std::string(wire.status().message()));
      }
      wanted.wire = codecs::wire_text(wire.value());
    }
    wanted.priority = known.priority;
    wanted.timeout_ns = known.timeout_ns;
  }
  // Not for a call to undo: TUTTI_DETERMINISTIC is what every rank was started with.
  return comm->communicator->accept(wanted);
}

}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiCommSetOptions(tuttiComm_t comm, const tuttiOptions_t* options) {
  return tutti::api::caught(comm,
                            [&] { return report(comm, tutti::api::set_options(comm, options)); });
}

tuttiResult_t tuttiSubmit(const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                          const tuttiOptions_t* options, tuttiRequest_t* request) {
  return tutti::api::caught(comm, [&] {
    return tutti::api::submit_call(call, {comm, stream, nullptr, nullptr}, options, request);
  });
}

}  // extern "C"
