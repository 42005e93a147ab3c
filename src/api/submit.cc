#include "src/api/submit.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/captured_call.h"
#include "src/api/members.h"
#include "src/api/plain_transfers.h"
#include "src/api/process.h"
#include "src/api/request.h"
#include "src/base/caught.h"
#include "src/base/per_thread.h"

namespace tutti::api {
namespace {

// Several communicators advance between two polls of one of them: yield early.
constexpr uint32_t kGroupSpins = 100;

struct OpenGroup {
  PlainTransfers plain;  // none if there are members
  std::vector<GroupMember> members;
  std::vector<Making> makings;
  std::vector<RegistrationCall> registrations;
  Status refusal;                         // of the first call that was refused: nothing runs
  std::shared_ptr<comm::Completion> own;  // of the operations on BLOCKING streams; null: none
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

/// An operation before it is known where it will run. Extras may be null, the handle too.
template <class Work>
struct Submission {
  tuttiComm_t comm;
  const Work& work;
  const comm::Extras* extras;
  const Handle* handle;
};

template <class Work>
comm::Task make_task(const Submission<Work>& asked) {
  comm::Task task;
  task.communicator = asked.comm->communicator.get();
  task.work = asked.work;
  if (asked.extras != nullptr) task.extras = *asked.extras;
  if constexpr (std::is_same_v<Work, comm::Request>) {
    if (asked.work.counts != nullptr) task.counts = comm::KeptCounts(*asked.work.counts);
  }
  const auto& own = task.extras.options;
  task.priority = own ? own->priority : task.communicator->options().priority;
  if (asked.handle != nullptr) {
    task.handles.push_back(*asked.handle);
    (*asked.handle)->add();  // from here on it must be told
  }
  return task;
}

comm::Task::TaskStream stream_of(OpenGroup& group, tuttiStream_t stream) {
  if (is_of_device(stream)) {
    // tidy: allow mutable (what fails there is told by the communicator)
    static const auto nobody = std::make_shared<comm::Completion>();
    return {nobody, nullptr};
  }
  if (stream.kind != tuttiStreamHost) {
    if (group.own == nullptr) group.own = std::make_shared<comm::Completion>();
    return {group.own, nullptr};
  }
  return {static_cast<HostStream*>(stream.handle)->completion, stream.handle};
}

Result<comm::StreamEngine*> find_engine() {
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  return process.value()->engine();
}

template <class Work>
Status enqueue(const Submission<Work>& asked, tuttiStream_t stream) {
  Result<comm::StreamEngine*> engine = find_engine();
  if (!engine.ok()) return engine.status();
  comm::Task task = make_task(asked);
  const Status status = caught_status([&] {
    task.stream = stream_of(group(), stream);
    engine.value()->submit(task);
    return Status();
  });
  if (!status.ok()) task.tell(status);
  return status;
}

// Beside others, plain transfers are a task like these.
void settle(OpenGroup& group) {
  if (group.plain.empty()) return;
  group.members.reserve(1);  // what is taken is not lost
  comm::Task::TaskStream stream = stream_of(group, tuttiBlocking());
  const tuttiComm_t comm = group.plain.comm();
  comm::Task task = group.plain.take();
  task.stream = std::move(stream);
  std::vector<tuttiStream_t> streams(task.transfers().size(), tuttiBlocking());
  group.members.push_back({comm, std::move(task), std::move(streams)});
}

// Options that the communicator gets before the group ends are for later calls.
template <class Work>
Status collect(OpenGroup& group, const Submission<Work>& asked, tuttiStream_t stream) {
  std::vector<tuttiStream_t> streams{stream};  // before the task, whose handle must be told
  GroupMember member{asked.comm, make_task(asked), std::move(streams)};
  const Status kept = caught_status([&] {
    settle(group);
    comm::Extras& extras = member.task.extras;
    if (!extras.options) extras.options = member.task.communicator->options();
    member.task.stream = stream_of(group, stream);
    std::vector<GroupMember>& members = group.members;
    if (!join_transfers(members, member)) members.push_back(std::move(member));
    return Status();
  });
  if (!kept.ok()) member.task.tell(kept);
  return kept;
}

template <class Work>
tuttiResult_t submit_work(const Submission<Work>& asked, tuttiStream_t stream) {
  tuttiComm_t comm = asked.comm;
  if (may_have_device_memory() && !is_of_device(stream)) [[unlikely]] {
    const Status status = check_host_memory(asked.work, *comm->communicator);
    if (!status.ok()) return refuse(comm, status);
  }
  if (group_depth > 0) [[unlikely]] {
    const Status kept = collect(group(), asked, stream);
    return kept.ok() ? tuttiSuccess : refuse(comm, kept);
  }
  const bool is_blocking = stream.kind == tuttiStreamBlocking;
  if (is_of_device(stream) || (is_blocking && comm->communicator->is_replayed())) [[unlikely]] {
    OpenGroup alone;
    const Status kept = collect(alone, asked, stream);
    return report(comm, kept.ok() ? run_group(std::move(alone)) : kept);
  }
  if (stream.kind == tuttiStreamHost) {
    return report(comm, enqueue(asked, stream));
  }
  if constexpr (std::is_same_v<Work, exec::Transfer>) {
    const comm::CallOptions& options = comm->communicator->options_of(asked.extras);
    return run_now(comm, std::span(&asked.work, 1), options.timeout_ns);
  } else {
    return run_now(comm, asked.work);
  }
}

// A group with a HOST stream, or a device's, belongs to the engine as a whole: a communicator is
// driven by one thread at a time. `tasks` has room for all.
Status queue_group(OpenGroup& group, comm::StreamEngine& engine, std::vector<comm::Task>& tasks,
                   Turns& turns) {
  for (GroupMember& member : group.members) tasks.push_back(std::move(member.task));
  const Status taken = caught_status([&] {
    engine.submit(tasks);
    return Status();
  });
  if (!taken.ok()) {
    for (const comm::Task& task : tasks) task.tell(taken);
    std::erase_if(turns, [](const MemberTurn& turn) { return !turn.direct; });
    (void)put_turns(turns);
    return taken;
  }
  const Status left = put_turns(turns);
  group.members.clear();  // what is announced keeps its communicator by itself
  const Status waited = group.own == nullptr ? Status() : group.own->wait();
  return left.ok() ? waited : left;
}

Status drive_group(OpenGroup& group, comm::Driver& driver, Turns& turns) {
  const Status put = put_turns(turns);
  for (GroupMember& member : group.members) {
    member.task.announce();
    member.visitor = Visitor(nullptr);  // as in queue_group()
    driver.add(std::move(member.task));
  }
  driver.run(kGroupSpins);
  const Status waited = group.own == nullptr ? Status() : group.own->wait();
  return put.ok() ? waited : put;
}

Status run_members(OpenGroup& group) {
  std::vector<GroupMember>& members = group.members;
  comm::StreamEngine* engine = nullptr;
  std::vector<comm::Task> tasks;
  std::optional<comm::Driver> driver;
  Turns turns;
  std::optional<DeferredCallbacks> deferred;  // the communicators are the driver's until its end
  std::vector<GroupMember> direct, captured;
  const Status ready = caught_status([&]() -> Status {
    order(members);
    if (Status status = enter(members); !status.ok()) return status;
    if (Status status = check_engines(members); !status.ok()) return status;
    Result<std::vector<GroupMember>> taken = take_captured(members);
    if (!taken.ok()) return taken.status();
    captured = std::move(taken).value();
    direct = take_direct(members);
    Result<Turns> entered = enter_devices(members, direct);
    if (!entered.ok()) return entered.status();
    turns = std::move(entered).value();
    // Before any task is counted as pending: a group may hold several of one communicator.
    if (std::none_of(members.begin(), members.end(), needs_engine)) {
      size_t handles = 0;
      for (const GroupMember& member : members) handles += member.task.handles.size();
      if (handles > 0) deferred.emplace(handles);
      driver.emplace();
      return {};
    }
    if (group.own != nullptr) {
      if (Status status = check_can_wait("tuttiGroupEnd"); !status.ok()) return status;
    }
    tasks.reserve(members.size());
    Result<comm::StreamEngine*> found = find_engine();
    if (!found.ok()) return found.status();
    engine = found.value();
    return {};
  });
  if (!ready.ok()) {
    tell_all(members, ready);
    tell_all(direct, ready);
    tell_all(captured, ready);
    return ready;
  }
  // Between the two points of what crosses to the host: no stream waits for this rank yet.
  declare_by_host(members);
  const Status kept = put_captured(captured);
  const Status run = engine != nullptr ? queue_group(group, *engine, tasks, turns)
                                       : drive_group(group, *driver, turns);
  return kept.ok() ? run : kept;
}

bool operates_on(const OpenGroup& group, const tuttiComm* comm) {
  return (!group.plain.empty() && group.plain.comm() == comm) || is_among(group.members, comm);
}

// Communicators and registrations first: what they wait for is that other ranks do the same, never
// an operation.
Status run_group(OpenGroup group) {
  const Status settled = caught_status([&] {
    settle(group);
    return Status();
  });
  if (group.refusal.ok()) group.refusal = settled;
  if (group.refusal.ok()) group.refusal = check_makings(group.makings);
  if (!group.refusal.ok()) {
    drop_makings(group.makings, group.refusal);
    tell_all(group.members, group.refusal);
    return group.refusal;
  }
  for (RegistrationCall& one : group.registrations)
    one.operated_on = is_among(group.members, one.comm);
  const Status made = run_makings(std::move(group.makings));
  const Status registered = caught_status([&] { return run_registrations(group.registrations); });
  const Status ran = run_members(group);
  const Status& behind = registered.ok() ? ran : registered;
  return made.ok() || (made.code() == Code::kInProgress && !behind.ok()) ? behind : made;
}

bool holds_plain_only(const OpenGroup& group) {
  return !group.plain.empty() && group.makings.empty() && group.registrations.empty() &&
         group.refusal.ok();
}

// Others wait for its requests, and for communicators that are busy for it. The caller's variables
// may have been on the stack that is gone.
void abandon_group(OpenGroup group) {
  attempt([&] { settle(group); });
  const auto of_parent = [](const GroupMember& member) { return is_inherited(*member.comm); };
  const bool inherited = !check_makings(group.makings).ok() ||
                         std::any_of(group.members.begin(), group.members.end(), of_parent);
  if (inherited || (group.makings.empty() && group.members.empty())) return;
  for (Making& making : group.makings) making.out = nullptr;
  group.refusal = caught_status([] {
    return Status::invalid_usage("the thread that began the group ended before the group");
  });
  (void)run_group(std::move(group));
}

}  // namespace

bool in_group() { return group_depth > 0; }

tuttiResult_t submit(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream,
                     const Handle* handle) {
  return submit_work<comm::Request>({comm, request, request.extras, handle}, stream);
}

tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream,
                     const comm::Extras* extras, const Handle* handle) {
  const bool is_plain = extras == nullptr && handle == nullptr &&
                        stream.kind == tuttiStreamBlocking && !may_have_device_memory();
  if (group_depth > 0 && is_plain) {
    OpenGroup& open = group();
    if (open.members.empty() && open.plain.add(comm, transfer)) return tuttiSuccess;
  }
  return submit_work<exec::Transfer>({comm, transfer, extras, handle}, stream);
}

tuttiResult_t submit(tuttiComm_t comm, const comm::Access& access, tuttiStream_t stream) {
  return submit_work<comm::Access>({comm, access, nullptr, nullptr}, stream);
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

bool add_to_group(const Making& making) {
  if (group_depth == 0) return false;
  group().makings.push_back(making);
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
  const std::vector<Making>& makings = group().makings;
  const std::vector<RegistrationCall>& registrations = group().registrations;
  return group_operates_on(comm) ||
         std::any_of(registrations.begin(), registrations.end(),
                     [comm](const RegistrationCall& one) { return one.comm == comm; }) ||
         std::any_of(makings.begin(), makings.end(),
                     [comm](const Making& making) { return making.parent == comm; });
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
  const Inside inside;
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
    if (!(ended.makings.empty() && ended.registrations.empty())) {
      return Status::invalid_usage(
          "a group that makes communicators or registers memory cannot be simulated");
    }
    if (nanoseconds == nullptr) {
      return Status::invalid_argument("tuttiGroupSimulateEnd: nanoseconds is null");
    }
    simulated = Status::invalid_usage("the group was only simulated");
    settle(ended);
    return predict(ended.members, *nanoseconds);
  });
  ended.refusal = status.ok() ? simulated : status;
  (void)run_group(std::move(ended));
  return report(nullptr, status);
}

bool waits_for_group_end(const Handle& handle) {
  if (group_depth == 0) return false;
  const auto& members = group().members;
  return std::any_of(members.begin(), members.end(), [&](const GroupMember& member) {
    const auto& handles = member.task.handles;
    return std::find(handles.begin(), handles.end(), handle) != handles.end();
  });
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
