#include "src/operation/group.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "src/base/caught.h"
#include "src/operation/captured_calls.h"
#include "src/operation/room.h"

namespace tutti::operation {
namespace {

// Several communicators advance between two polls of one of them: yield early.
constexpr uint32_t kGroupSpins = 100;

bool may_join(const PlacedOperation& earlier, const PlacedOperation& later) {
  return earlier.communicator == later.communicator && earlier.by_streams == later.by_streams &&
         earlier.task.operation->can_join(*later.task.operation);
}

// Those that streams run are in a task of their own: a peer's may be alone. The last that may find
// no memory is the join itself: the handles are told by one task or the other.
bool join(PlacedOperation& earlier, PlacedOperation& later) {
  if (!may_join(earlier, later)) return false;
  Task& task = earlier.task;
  earlier.reserve_streams(later.streams().size());
  make_room(task.more_streams, task.more_streams.size() + 1);
  make_room(task.handles, task.handles.size() + later.task.handles.size());
  task.operation->join(*later.task.operation);
  earlier.add_streams(later.streams());
  const Task::TaskStream& stream = later.task.stream;
  const auto known = [&](const Task::TaskStream& other) {
    return other.completion == stream.completion;
  };
  if (!known(task.stream) &&
      std::none_of(task.more_streams.begin(), task.more_streams.end(), known)) {
    task.more_streams.push_back(stream);
  }
  task.handles.insert(task.handles.end(), later.task.handles.begin(), later.task.handles.end());
  task.priority = task.operation->options().priority;
  if (earlier.runner != later.runner) earlier.runner = Runner::kStreamThread;
  return true;
}

}  // namespace

bool OperationGroup::operates_on(const comm::Communicator& communicator) const {
  return std::any_of(members_.begin(), members_.end(), [&](const PlacedOperation& member) {
    return member.communicator == &communicator;
  });
}

bool OperationGroup::waits_for(const std::shared_ptr<Completion>& handle) const {
  return std::any_of(members_.begin(), members_.end(), [&](const PlacedOperation& member) {
    const auto& handles = member.task.handles;
    return std::find(handles.begin(), handles.end(), handle) != handles.end();
  });
}

const std::shared_ptr<Completion>& OperationGroup::blocking() {
  if (blocking_ == nullptr) blocking_ = std::make_shared<Completion>();
  return blocking_;
}

void OperationGroup::add(PlacedOperation& member) {
  member.task.operation->keep_options();
  for (PlacedOperation& earlier : members_) {
    if (join(earlier, member)) return;
  }
  members_.push_back(std::move(member));
}

void OperationGroup::tell(const Status& status) const {
  for (const auto* members : {&members_, &by_streams_, &captured_}) {
    for (const PlacedOperation& member : *members) member.task.tell(status);
  }
}

size_t OperationGroup::handles() const {
  size_t handles = 0;
  for (const PlacedOperation& member : members_) handles += member.task.handles.size();
  return handles;
}

// The operations of a communicator follow each other, those of several run side by side.
Status OperationGroup::predict(uint64_t& nanoseconds) {
  std::map<const comm::Communicator*, double> times;
  double longest = 0;
  for (PlacedOperation& member : members_) {
    if (Status status = member.check(); !status.ok()) return status;
    const Result<double> predicted = member.task.operation->predict_ns();
    if (!predicted.ok()) return predicted.status();
    longest = std::max(longest, times[member.communicator] += predicted.value());
  }
  nanoseconds = static_cast<uint64_t>(longest);
  return {};
}

void OperationGroup::order() {
  std::map<std::pair<const comm::Communicator*, GroupPhase>, size_t> known;
  for (PlacedOperation& member : members_) {
    member.index = known[{member.communicator, member.phase}]++;
  }
  std::stable_sort(
      members_.begin(), members_.end(),
      [](const PlacedOperation& a, const PlacedOperation& b) { return a.phase < b.phase; });
}

// Also where a communicator has work there: it is driven by one thread at a time, and to wait for
// that work before the group has begun may be to wait for ever, since a peer may do it only behind
// what the group has of another communicator.
bool OperationGroup::needs_engine() const {
  return std::any_of(members_.begin(), members_.end(), [](const PlacedOperation& member) {
    return member.runner != Runner::kCallersThread ||
           member.communicator->streams().is_replayed() ||
           member.communicator->pending.load(std::memory_order_acquire) > 0;
  });
}

// Before any task is counted as pending: a group may hold several of one communicator.
Status OperationGroup::decide(const StreamThread& thread) {
  order();
  for (PlacedOperation& member : members_) {
    if (Status status = member.prepare(); !status.ok()) return status;
  }
  Result<std::vector<PlacedOperation>> captured = take_captured(members_);
  if (!captured.ok()) return captured.status();
  captured_ = std::move(captured).value();
  const auto by_streams = std::stable_partition(
      members_.begin(), members_.end(),
      [](const PlacedOperation& member) { return member.runner != Runner::kStream; });
  by_streams_.assign(std::make_move_iterator(by_streams), std::make_move_iterator(members_.end()));
  members_.erase(by_streams, members_.end());
  Result<StreamTurns> entered = enter_streams(members_, by_streams_);
  if (!entered.ok()) return entered.status();
  turns_ = std::move(entered).value();
  if (!needs_engine()) {
    scheduler_.emplace();
    return {};
  }
  tasks_.reserve(members_.size());
  Result<StreamEngine*> found = thread.find();
  if (!found.ok()) return found.status();
  engine_ = found.value();
  return {};
}

Status OperationGroup::prepare(const StreamThread& thread) {
  Status ready = caught_status([&] { return decide(thread); });
  if (!ready.ok()) tell(ready);
  return ready;
}

// A group with a HOST stream, or a device's that goes by the host, belongs to the engine as a
// whole: a communicator is driven by one thread at a time. `tasks_` has room for all.
void OperationGroup::queue() {
  for (PlacedOperation& member : members_) tasks_.push_back(std::move(member.task));
  const Status taken = caught_status([&] {
    engine_->submit(tasks_);
    return Status();
  });
  if (!taken.ok()) {
    for (const Task& task : tasks_) task.tell(taken);
    std::erase_if(turns_, [](const StreamTurn& turn) { return turn.is_by_host(); });
  }
  const Status left = put_turns(turns_);
  if (started_.ok()) started_ = taken.ok() ? left : taken;
}

void OperationGroup::drive() {
  const Status put = put_turns(turns_);
  if (started_.ok()) started_ = put;
  for (PlacedOperation& member : members_) {
    member.task.announce();
    scheduler_->add(std::move(member.task));
  }
}

// Between the two points of what goes by the host no stream waits for this rank yet.
void OperationGroup::start(const StreamThread& thread) {
  for (PlacedOperation& member : members_) {
    if (!member.streams().front().is_of_device()) continue;
    (void)member.task.operation->announce_host_way();  // an error: it fails when it runs
  }
  started_ = put_captured(captured_, thread);
  if (engine_ != nullptr) {
    queue();
  } else {
    drive();
  }
}

Status OperationGroup::finish() {
  if (scheduler_) scheduler_->run(kGroupSpins);
  const Status waited = blocking_ == nullptr ? Status() : blocking_->wait();
  return started_.ok() ? waited : started_;
}

namespace {

Status run_by_host(PlacedOperation& member, const StreamThread& thread) {
  StreamTurn turn(member);
  const std::shared_ptr<Completion> blocking =
      member.streams().front().kind == StreamKind::kBlocking ? member.task.stream.completion
                                                             : nullptr;
  const Status queued = caught_status([&]() -> Status {
    if (Status status = turn.stage(); !status.ok()) return status;
    const Result<StreamEngine*> engine = thread.find();
    if (!engine.ok()) return engine.status();
    if (Status status = turn.enter(); !status.ok()) return status;
    if (member.streams().front().is_of_device()) {
      (void)member.task.operation->announce_host_way();  // an error: it fails when it runs
    }
    engine.value()->submit(member.task);
    return {};
  });
  if (!queued.ok()) {
    member.task.tell(queued);
    return queued;
  }
  const Status left = turn.leave();
  if (!left.ok()) member.communicator->failures().abort(left);
  const Status waited = blocking == nullptr ? Status() : blocking->wait();
  return left.ok() ? waited : left;
}

Status capture_alone(PlacedOperation& member, const StreamThread& thread) {
  std::vector<PlacedOperation> alone;
  alone.push_back(std::move(member));
  return put_captured(alone, thread);
}

}  // namespace

Status run_alone(PlacedOperation& member, const StreamThread& thread) {
  const Status ready = caught_status([&] { return member.prepare(); });
  if (!ready.ok()) {
    member.task.tell(ready);
    return ready;
  }
  if (member.is_captured()) return capture_alone(member, thread);
  if (member.runner != Runner::kStream) return run_by_host(member, thread);
  return put_in_stream(member, member.task.handles);
}

}  // namespace tutti::operation
