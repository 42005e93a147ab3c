#include "src/api/submit.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/device.h"
#include "src/api/plain_transfers.h"
#include "src/api/process.h"
#include "src/api/request.h"
#include "src/base/caught.h"
#include "src/base/per_thread.h"
#include "src/operation/group.h"
#include "src/operation/transfer_operation.h"

namespace tutti::api {
namespace {

using operation::CallStream;
using operation::PlacedOperation;
using operation::StreamKind;

struct OpenGroup {
  PlainTransfers plain;  // none if there are operations
  operation::OperationGroup operations;
  std::vector<tuttiComm_t> comms;  // of the operations, without repetition
  std::vector<PendingInit> pending_inits;
  std::vector<RegistrationCall> registrations;
  Status refusal;  // of the first call that was refused: nothing runs
};

// tidy: allow mutable (the C API's groups belong to a thread)
constinit thread_local int group_depth = 0;

void abandon_group(OpenGroup group);
Status run_group(OpenGroup group);

/// A thread may end without having ended its group.
struct ThreadGroup {
  OpenGroup open;
  ~ThreadGroup() {
    group_depth = 0;  // what the thread calls after this is in no group
    abandon_group(std::move(open));
  }
};

/// The open group of this thread.
OpenGroup& group() { return PerThread<ThreadGroup>::get().open; }

Result<operation::StreamEngine*> find_engine() {
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  return process.value()->engine();
}

constexpr operation::StreamThread kStreamThread{find_engine, drain};

/// `blocking`: who is told where the stream is a BLOCKING one.
CallStream call_stream(tuttiStream_t stream, const Handle& blocking) {
  if (is_of_device(stream)) {
    // tidy: allow mutable (what fails there is told by the communicator)
    static const auto nobody = std::make_shared<operation::Completion>();
    return {StreamKind::kDevice, {nobody, nullptr}, stream.handle, {}};
  }
  if (stream.kind != tuttiStreamHost) {
    return {StreamKind::kBlocking, {blocking, nullptr}, nullptr, {}};
  }
  const auto* const host = static_cast<HostStream*>(stream.handle);
  return {StreamKind::kHost, {host->completion, stream.handle}, nullptr, {}};
}

void add(OpenGroup& group, tuttiComm_t comm, PlacedOperation& member) {
  const auto known = std::find(group.comms.begin(), group.comms.end(), comm);
  if (known == group.comms.end()) group.comms.push_back(comm);
  group.operations.add(member);
}

// Beside others, plain transfers are operations like these. Another thread may have ended their
// communicator since the call.
Status settle(OpenGroup& group) {
  if (group.plain.empty()) return {};
  const tuttiComm_t comm = group.plain.comm();
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  const CallStream stream = call_stream(tuttiBlocking(), group.operations.blocking());
  PlacedOperation member(group.plain.operation(), stream, nullptr);
  for (size_t i = 1; i < group.plain.size(); ++i) member.add_streams({&stream, 1});
  add(group, comm, member);
  group.plain.clear();  // what was taken is not lost
  return {};
}

// Options that the communicator gets before the group ends are for later calls.
Status collect(OpenGroup& group, tuttiComm_t comm, const operation::Operation& operation,
               tuttiStream_t stream, const Handle& handle) {
  const bool is_blocking = stream.kind == tuttiStreamBlocking;
  const CallStream on = call_stream(stream, is_blocking ? group.operations.blocking() : nullptr);
  PlacedOperation member(operation, on, handle);
  const Status kept = caught_status([&] {
    if (Status status = settle(group); !status.ok()) return status;
    add(group, comm, member);
    return Status();
  });
  if (!kept.ok()) member.task.tell(kept);
  return kept;
}

/// The communicators of a group are kept from being freed while this exists. Another thread may
/// have ended one since the call.
Status enter(const OpenGroup& group, std::vector<UseGuard>& uses) {
  for (tuttiComm_t comm : group.comms) {
    uses.push_back(guard_use(comm));
    if (Status status = check_handle(comm); !status.ok()) return status;
  }
  return {};
}

// A communicator's planner is the engine's as long as something of it is queued. A communicator is
// kept from being freed only while nothing here waits for another one, whose end may be the next
// that another thread is going to ask for.
Status drain_all(const OpenGroup& group) {
  for (tuttiComm_t comm : group.comms) {
    const UseGuard use = guard_use(comm);
    if (Status status = check_handle(comm); !status.ok()) return status;
    if (Status status = drain(*comm->communicator); !status.ok()) return status;
  }
  return {};
}

Status predict(OpenGroup& group, uint64_t& nanoseconds) {
  if (Status status = drain_all(group); !status.ok()) return status;
  std::vector<UseGuard> uses;
  if (Status status = enter(group, uses); !status.ok()) return status;
  return group.operations.predict(nanoseconds);
}

Status run_operations(OpenGroup& group) {
  std::optional<DeferredCallbacks> deferred;  // the communicators are driven here until its end
  std::vector<UseGuard> uses;
  operation::OperationGroup& operations = group.operations;
  Status ready = caught_status([&] { return enter(group, uses); });
  if (!ready.ok()) {
    operations.tell(ready);
    return ready;
  }
  ready = operations.prepare(kStreamThread);
  if (!ready.ok()) return ready;
  ready = caught_status([&] {
    if (operations.waits()) return check_can_wait("tuttiGroupEnd");
    if (operations.is_driven_here() && operations.handles() > 0) {
      deferred.emplace(operations.handles());
    }
    return Status();
  });
  if (!ready.ok()) {
    operations.tell(ready);
    return ready;
  }
  operations.start(kStreamThread);
  uses.clear();  // what is announced keeps its communicator by itself
  return operations.finish();
}

bool operates_on(const OpenGroup& group, const tuttiComm* comm) {
  const bool is_among =
      std::find(group.comms.begin(), group.comms.end(), comm) != group.comms.end();
  return is_among || (!group.plain.empty() && group.plain.comm() == comm);
}

// Communicators and registrations first: what they wait for is that other ranks do the same, never
// an operation.
Status run_group(OpenGroup group) {
  const Status settled = caught_status([&] { return settle(group); });
  if (group.refusal.ok()) group.refusal = settled;
  if (group.refusal.ok()) group.refusal = check_inits(group.pending_inits);
  if (!group.refusal.ok()) {
    drop_inits(group.pending_inits, group.refusal);
    group.operations.tell(group.refusal);
    return group.refusal;
  }
  for (RegistrationCall& one : group.registrations) one.operated_on = operates_on(group, one.comm);
  const Status made = run_inits(std::move(group.pending_inits));
  const Status registered = caught_status([&] { return run_registrations(group.registrations); });
  const Status ran = run_operations(group);
  const Status& behind = registered.ok() ? ran : registered;
  return made.ok() || (made.code() == Code::kInProgress && !behind.ok()) ? behind : made;
}

bool holds_plain_only(const OpenGroup& group) {
  return !group.plain.empty() && group.pending_inits.empty() && group.registrations.empty() &&
         group.refusal.ok();
}

// Others wait for its requests, and for communicators that are busy for it. The caller's variables
// may have been on the stack that is gone.
void abandon_group(OpenGroup group) {
  attempt([&] { (void)settle(group); });
  const auto of_parent = [](const tuttiComm* comm) { return is_inherited(*comm); };
  const bool inherited = !check_inits(group.pending_inits).ok() ||
                         std::any_of(group.comms.begin(), group.comms.end(), of_parent);
  if (inherited || (group.pending_inits.empty() && group.operations.empty())) return;
  for (PendingInit& pending : group.pending_inits) pending.out = nullptr;
  group.refusal = caught_status([] {
    return Status::invalid_usage("the thread that began the group ended before the group");
  });
  (void)run_group(std::move(group));
}

}  // namespace

bool in_group() { return group_depth > 0; }

tuttiResult_t submit(tuttiComm_t comm, operation::Operation&& operation, tuttiStream_t stream,
                     const Handle* handle) {
  if (may_have_device_memory() && !is_of_device(stream)) [[unlikely]] {
    const Status status = operation::check_host_memory(device(), operation.buffers());
    if (!status.ok()) return refuse(comm, status);
  }
  const Handle told = handle != nullptr ? *handle : nullptr;
  if (group_depth > 0) [[unlikely]] {
    const Status kept = collect(group(), comm, operation, stream, told);
    return kept.ok() ? tuttiSuccess : refuse(comm, kept);
  }
  const bool is_blocking = stream.kind == tuttiStreamBlocking;
  if (is_blocking && !comm->communicator->streams().is_replayed()) {
    return run_now(comm, [&] { return operation.run(); });
  }
  Handle blocking;
  if (is_blocking) {
    if (Status status = check_can_wait("this call"); !status.ok()) return report(comm, status);
    blocking = std::make_shared<operation::Completion>();
  }
  PlacedOperation placed(operation, call_stream(stream, blocking), told);
  return report(comm, operation::run_alone(placed, kStreamThread));
}

tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream,
                     const comm::Extras* extras, const Handle* handle) {
  const bool is_plain = extras == nullptr && handle == nullptr &&
                        stream.kind == tuttiStreamBlocking && !may_have_device_memory();
  if (group_depth > 0 && is_plain) {
    OpenGroup& open = group();
    if (open.operations.empty() && open.plain.add(comm, transfer)) return tuttiSuccess;
  }
  return submit(comm, operation::TransferOperation(*comm->communicator, transfer, extras), stream,
                handle);
}

Status check_stream(tuttiStream_t stream) {
  if (stream.reserved != 0) return Status::invalid_argument("stream.reserved must be 0");
  if (stream.kind == tuttiStreamBlocking) return {};
  if (is_of_device(stream)) return check_device_stream(stream);
  if (stream.kind != tuttiStreamHost) {
    return Status::invalid_argument("stream.kind is none of BLOCKING, HOST and DEVICE");
  }
  if (stream.handle == nullptr) {
    return Status::invalid_argument("a HOST stream needs the handle from tuttiStreamCreate");
  }
  return static_cast<HostStream*>(stream.handle)->inherited ? inherited("the stream") : Status();
}

tuttiResult_t refuse(tuttiComm* comm, const Status& status) {
  const tuttiResult_t result = report(comm, status);
  if (group_depth > 0 && group().refusal.ok()) group().refusal = status;
  return result;
}

bool add_to_group(const PendingInit& pending) {
  if (group_depth == 0) return false;
  group().pending_inits.push_back(pending);
  return true;
}

bool add_to_group(const RegistrationCall& registration) {
  if (group_depth == 0) return false;
  group().registrations.push_back(registration);
  return true;
}

bool group_operates_on(const tuttiComm* comm) {
  return group_depth > 0 && operates_on(group(), comm);
}

bool group_uses(const tuttiComm* comm) {
  if (group_depth == 0) return false;
  const std::vector<PendingInit>& pending_inits = group().pending_inits;
  const std::vector<RegistrationCall>& registrations = group().registrations;
  return group_operates_on(comm) ||
         std::any_of(registrations.begin(), registrations.end(),
                     [comm](const RegistrationCall& one) { return one.comm == comm; }) ||
         std::any_of(pending_inits.begin(), pending_inits.end(),
                     [comm](const PendingInit& pending) { return pending.parent == comm; });
}

tuttiResult_t group_start() {
  (void)group();  // a refusal must find it
  ++group_depth;
  return tuttiSuccess;
}

tuttiResult_t group_end() {
  if (group_depth == 0) {
    return report(nullptr, Status::invalid_usage("tuttiGroupEnd without tuttiGroupStart"));
  }
  if (--group_depth > 0) return tuttiSuccess;
  const ThreadInCall inside;
  OpenGroup& ended = group();
  if (holds_plain_only(ended)) return report(nullptr, ended.plain.run());
  return report(nullptr, run_group(std::exchange(ended, {})));
}

tuttiResult_t group_simulate_end(uint64_t* nanoseconds) {
  if (group_depth == 0) {
    return report(nullptr, Status::invalid_usage("tuttiGroupSimulateEnd without tuttiGroupStart"));
  }
  if (nanoseconds != nullptr) *nanoseconds = 0;
  if (--group_depth > 0) return tuttiSuccess;
  OpenGroup ended = std::exchange(group(), {});
  Status simulated;
  const Status status = caught_status([&]() -> Status {
    if (!ended.refusal.ok()) return ended.refusal;
    if (!(ended.pending_inits.empty() && ended.registrations.empty())) {
      return Status::invalid_usage(
          "a group that makes communicators or registers memory cannot be simulated");
    }
    if (nanoseconds == nullptr) {
      return Status::invalid_argument("tuttiGroupSimulateEnd: nanoseconds is null");
    }
    simulated = Status::invalid_usage("the group was only simulated");
    if (Status status = settle(ended); !status.ok()) return status;
    return predict(ended, *nanoseconds);
  });
  ended.refusal = status.ok() ? simulated : status;
  (void)run_group(std::move(ended));
  return report(nullptr, status);
}

bool waits_for_group_end(const Handle& handle) {
  return group_depth > 0 && group().operations.waits_for(handle);
}

tuttiResult_t group_discard() {
  if (group_depth == 0) return tuttiSuccess;
  group_depth = 0;
  OpenGroup discarded = std::exchange(group(), {});
  discarded.refusal =
      caught_status([] { return Status::invalid_usage("the group was discarded"); });
  (void)run_group(std::move(discarded));
  return tuttiSuccess;
}

}  // namespace tutti::api
