#include "src/api/submit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/api/process.h"

namespace tutti::api {
namespace {

// Several communicators advance between two polls of one of them: yield early.
constexpr uint32_t kGroupSpins = 100;

struct Member {
  tuttiComm_t comm;
  tuttiStream_t stream;
  std::variant<comm::Request, std::vector<exec::Transfer>> work;
};

// tidy: allow mutable (the C API's groups belong to a thread)
constinit thread_local int group_depth = 0;

struct Group {
  std::vector<Member> members;
  std::vector<Making> makings;
  Status refusal;  // of the first call that was refused: nothing runs
};

/// What the open group of this thread holds.
Group& group() {
  // tidy: allow mutable (the C API's groups belong to a thread)
  thread_local Group group;
  return group;
}

comm::Task make_task(Member& member, std::shared_ptr<comm::Completion> completion) {
  comm::Task task;
  task.communicator = member.comm->communicator.get();
  task.work = std::move(member.work);
  task.ticket =
      std::visit([&](const auto& work) { return task.communicator->queue(work); }, task.work);
  task.stream = member.stream.handle;
  task.completion = std::move(completion);
  task.completion->add();
  task.communicator->pending.fetch_add(1, std::memory_order_relaxed);
  return task;
}

Status enqueue(Member member) {
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  auto completion = static_cast<HostStream*>(member.stream.handle)->completion;
  process.value()->engine().submit(make_task(member, std::move(completion)));
  return {};
}

// Sends and receives of one communicator and stream progress together: they become one task.
void join_transfers(std::vector<Member>& members, Member member) {
  auto* transfers = std::get_if<std::vector<exec::Transfer>>(&member.work);
  for (Member& earlier : members) {
    if (transfers == nullptr || earlier.comm != member.comm) continue;
    if (earlier.stream.handle != member.stream.handle) continue;
    auto* joined = std::get_if<std::vector<exec::Transfer>>(&earlier.work);
    if (joined == nullptr) continue;
    joined->insert(joined->end(), transfers->begin(), transfers->end());
    return;
  }
  members.push_back(std::move(member));
}

template <class Work>
tuttiResult_t submit_work(tuttiComm_t comm, const Work& work, tuttiStream_t stream) {
  if (group_depth > 0) [[unlikely]] {
    if constexpr (std::is_same_v<Work, exec::Transfer>) {
      join_transfers(group().members, {comm, stream, std::vector<exec::Transfer>{work}});
    } else {
      group().members.push_back({comm, stream, work});
    }
    return tuttiSuccess;
  }
  if (stream.kind == tuttiStreamHost) {
    if constexpr (std::is_same_v<Work, exec::Transfer>) {
      return report(comm, enqueue({comm, stream, std::vector<exec::Transfer>{work}}));
    } else {
      return report(comm, enqueue({comm, stream, work}));
    }
  }
  comm::Communicator& communicator = *comm->communicator;
  if (communicator.pending.load(std::memory_order_acquire) > 0) [[unlikely]]
    drain(communicator);
  if constexpr (std::is_same_v<Work, exec::Transfer>) {
    return report(comm, communicator.run(std::span<const exec::Transfer>(&work, 1)));
  } else {
    return report(comm, communicator.run(work));
  }
}

// Ranks may name collectives and transfers in different orders, and need not all have transfers:
// with the collectives first on every rank nobody waits for what its peer has behind a transfer.
void order(std::vector<Member>& members) {
  std::stable_partition(members.begin(), members.end(), [](const Member& member) {
    return std::holds_alternative<comm::Request>(member.work);
  });
}

// A group with a HOST stream belongs to the engine as a whole: a communicator is driven by one
// thread at a time.
Status queue_group(std::vector<Member> members) {
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  auto own = std::make_shared<comm::Completion>();
  for (Member& member : members) {
    const bool host = member.stream.kind == tuttiStreamHost;
    auto completion = host ? static_cast<HostStream*>(member.stream.handle)->completion : own;
    process.value()->engine().submit(make_task(member, std::move(completion)));
  }
  return own->wait();
}

Status run_members(std::vector<Member> members) {
  order(members);
  const bool queued = std::any_of(members.begin(), members.end(), [](const Member& member) {
    return member.stream.kind == tuttiStreamHost;
  });
  if (queued) return queue_group(std::move(members));
  // Before any task is counted as pending: a group may hold several tasks of one communicator.
  for (const Member& member : members) drain(*member.comm->communicator);
  auto completion = std::make_shared<comm::Completion>();
  comm::Driver driver;
  for (Member& member : members) driver.add(make_task(member, completion));
  driver.run(kGroupSpins);
  return completion->wait();
}

// Communicators first: what they wait for is that other ranks make them too, never an operation.
Status run_group(Group group) {
  if (!group.refusal.ok()) {
    drop_makings(group.makings, group.refusal);
    return group.refusal;
  }
  const Status made = run_makings(std::move(group.makings));
  const Status ran = run_members(std::move(group.members));
  return made.ok() || (made.code() == Code::kInProgress && !ran.ok()) ? ran : made;
}

}  // namespace

tuttiResult_t submit(tuttiComm_t comm, const comm::Request& request, tuttiStream_t stream) {
  return submit_work(comm, request, stream);
}

tuttiResult_t submit(tuttiComm_t comm, const exec::Transfer& transfer, tuttiStream_t stream) {
  return submit_work(comm, transfer, stream);
}

Status check_stream(tuttiStream_t stream) {
  if (stream.reserved != 0) return Status::invalid_argument("stream.reserved must be 0");
  if (stream.kind == tuttiStreamBlocking) return {};
  if (stream.kind != tuttiStreamHost) {
    return Status::invalid_argument("stream.kind is neither BLOCKING nor HOST");
  }
  if (stream.handle != nullptr) return {};
  return Status::invalid_argument("a HOST stream needs the handle from tuttiStreamCreate");
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

bool group_uses(const tuttiComm* comm) {
  if (group_depth == 0) return false;
  const std::vector<Member>& members = group().members;
  return std::any_of(members.begin(), members.end(),
                     [comm](const Member& member) { return member.comm == comm; });
}

tuttiResult_t group_start() {
  ++group_depth;
  return tuttiSuccess;
}

tuttiResult_t group_end() {
  if (group_depth == 0) {
    return report(nullptr, Status::invalid_usage("tuttiGroupEnd without tuttiGroupStart"));
  }
  if (--group_depth > 0) return tuttiSuccess;
  return report(nullptr, run_group(std::exchange(group(), {})));
}

}  // namespace tutti::api
