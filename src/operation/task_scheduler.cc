#include "src/operation/task_scheduler.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "src/operation/room.h"

namespace tutti::operation {

namespace {

/// A list that is empty keeps no more memory than a short queue needs.
template <class Kept>
void trim(std::vector<Kept>& empty) {
  if (empty.capacity() <= TaskScheduler::kMostSpares) return;
  std::vector<Kept>().swap(empty);
}

/// Of what is not needed now.
template <class Kept>
void put_away(std::list<Kept>& used, typename std::list<Kept>::iterator one,
              std::list<Kept>& spares) {
  if (spares.size() < TaskScheduler::kMostSpares) {
    spares.splice(spares.begin(), used, one);
  } else {
    used.erase(one);
  }
}

/// At the end of `used`.
template <class Kept>
Kept& take_out(std::list<Kept>& spares, std::list<Kept>& used) {
  if (spares.empty()) return used.emplace_back();
  used.splice(used.end(), spares, spares.begin());
  return used.back();
}

/// Returns what `work` returns. An exception becomes the failure of the communicator: each task has
/// this border of its own, so that one that finds no memory ends alone.
template <class Work>
Status run_for(comm::Communicator& communicator, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return communicator.fail_after(error);
  }
}

}  // namespace

TaskScheduler::TaskScheduler() { spare_queues_.reserve(kMostSpares); }

// All memory that a task needs to end, or to start the next one, is taken here.
TaskScheduler::QueuedTask& TaskScheduler::new_node() {
  make_room(active_, nodes_.size() + 1, kMostSpares);
  make_room(in_line_, nodes_.size() + 1, kMostSpares);
  QueuedTask& node = take_out(spare_nodes_, nodes_);
  node.self = std::prev(nodes_.end());
  node.number = ++added_;
  node.begun = node.done = false;
  node.blocked = 0;
  return node;
}

void TaskScheduler::add(Task task) {
  comm::Communicator& communicator = task.communicator();
  QueuedTask* node = nullptr;
  const Status lined_up = run_for(communicator, [&] {
    node = &new_node();
    node->priority = task.priority;
    node->task = std::move(task);
    line_up(*node);
    return Status();
  });
  if (lined_up.ok()) return;
  if (node == nullptr) return task.finish(lined_up);
  finish(*node, lined_up);
}

void TaskScheduler::line_up(QueuedTask& node) {
  node.positions.reserve(2 + node.task.more_streams.size());
  take_communicators_position(node);
  take_position(node, node.task.stream.order, node.task.group);
  for (const Task::TaskStream& other : node.task.more_streams) {
    take_position(node, other.order, node.task.group);
  }
  for (const QueuePosition& position : node.positions)
    promote(position.batch->before, node.priority);
  if (node.blocked == 0) activate(node);
}

TaskScheduler::TaskQueue& TaskScheduler::queue_of(const void* order) {
  const auto found = queues_.find(order);
  if (found != queues_.end()) return found->second;
  TaskQueue* made = nullptr;
  if (spare_queues_.empty()) {
    made = &queues_[order];
  } else {
    spare_queues_.back().key() = order;
    made = &queues_.insert(std::move(spare_queues_.back())).position->second;
    spare_queues_.pop_back();
  }
  made->order = order;
  made->is_communicators = false;
  return *made;
}

void TaskScheduler::free_queue(const TaskQueue& queue) {
  TaskQueues::node_type over = queues_.extract(queue.order);
  if (spare_queues_.size() < kMostSpares) spare_queues_.push_back(std::move(over));
  if (queues_.empty() && queues_.bucket_count() > kMostSpares * 2) TaskQueues().swap(queues_);
}

// Behind what the queue holds; beside what belongs to the same group.
void TaskScheduler::take_position(QueuedTask& node, const void* order, uint64_t group) {
  if (order == nullptr) return;
  TaskQueue& queue = queue_of(order);
  const bool joins = group != 0 && !queue.batches.empty() && queue.batches.back().group == group;
  if (!joins) return take_position_before(node, queue, queue.batches.end(), group);
  TaskBatch& batch = queue.batches.back();
  batch.members.push_back({&node, node.positions.size()});
  node.positions.push_back({&batch, batch.members.size() - 1});
  if (batch.before != nullptr) ++node.blocked;
}

void TaskScheduler::take_communicators_position(QueuedTask& node) {
  TaskQueue& queue = queue_of(&node.task.communicator());
  queue.is_communicators = true;
  const auto later = node.task.is_replay ? first_to_wait(queue) : queue.batches.end();
  take_position_before(node, queue, later, 0);
}

/// Of a communicator's queue, where each batch has one task: the first that has not begun and is no
/// replay.
std::list<TaskScheduler::TaskBatch>::iterator TaskScheduler::first_to_wait(TaskQueue& queue) {
  return std::find_if(queue.batches.begin(), queue.batches.end(), [](const TaskBatch& batch) {
    const auto waits = [](const BatchMember& member) {
      return !member.node->begun && !member.node->task.is_replay;
    };
    return std::all_of(batch.members.begin(), batch.members.end(), waits);
  });
}

// The task gets a batch of its own, which joins the queue when it needs no more memory. `later` may
// be the end.
void TaskScheduler::take_position_before(QueuedTask& node, TaskQueue& queue,
                                         std::list<TaskBatch>::iterator later, uint64_t group) {
  std::list<TaskBatch> made;
  TaskBatch& batch = take_out(spare_batches_, made);
  batch.members.push_back({&node, node.positions.size()});
  const bool is_last = later == queue.batches.end();
  batch.queue = &queue;
  batch.group = group;
  batch.priority = std::numeric_limits<int>::min();
  batch.before = nullptr;
  if (!is_last) {
    batch.before = std::exchange(later->before, &batch);
    batch.priority = later->priority;
    for (const BatchMember& member : later->members) {
      batch.priority = std::max(batch.priority, member.node->priority);
      if (batch.before == nullptr && ++member.node->blocked == 1) std::erase(active_, member.node);
    }
  } else if (!queue.batches.empty()) {
    batch.before = &queue.batches.back();
  }
  queue.batches.splice(later, made);
  node.positions.push_back({&batch, 0});
  node.priority = std::max(node.priority, batch.priority);
  if (batch.before != nullptr) ++node.blocked;
}

// The last member gets the place.
void TaskScheduler::leave(const QueuePosition& position) {
  TaskBatch& batch = *position.batch;
  const BatchMember last = batch.members.back();
  batch.members[position.place] = last;
  last.node->positions[last.position].place = position.place;
  batch.members.pop_back();
  if (batch.members.empty() && batch.before == nullptr) end_first_batches(*batch.queue);
}

// One whose members all failed in line is over only when nothing is before it: so what is added
// later waits for what they had waited for.
void TaskScheduler::end_first_batches(TaskQueue& queue) {
  while (!queue.batches.empty() && queue.batches.front().members.empty()) {
    trim(queue.batches.front().members);
    put_away(queue.batches, queue.batches.begin(), spare_batches_);
    if (queue.batches.empty()) return free_queue(queue);
    TaskBatch& first = queue.batches.front();
    first.before = nullptr;
    looks_ += first.members.size();
    for (const BatchMember& member : first.members) {
      if (--member.node->blocked == 0) activate(*member.node);
    }
  }
}

// Raises the batch, and all batches that it waits for, to the priority of a task that waits behind
// it. Null: that task waits for nothing.
void TaskScheduler::promote(TaskBatch* batch, int priority) {
  raised_.assign(1, batch);
  while (!raised_.empty()) {
    TaskBatch* const next = raised_.back();
    raised_.pop_back();
    ++looks_;
    if (next == nullptr || next->priority >= priority) continue;
    next->priority = priority;
    raised_.push_back(next->before);
    looks_ += next->members.size();
    for (const BatchMember& member : next->members) raise(*member.node, priority);
  }
  trim(raised_);
}

void TaskScheduler::raise(QueuedTask& node, int priority) {
  if (node.priority >= priority) return;
  node.priority = priority;
  if (node.blocked == 0) {
    std::erase(active_, &node);
    activate(node);
  }
  for (const QueuePosition& position : node.positions) raised_.push_back(position.batch->before);
}

void TaskScheduler::activate(QueuedTask& node) {
  const auto place = std::upper_bound(
      active_.begin(), active_.end(), &node, [](const QueuedTask* a, const QueuedTask* b) {
        return a->priority != b->priority ? a->priority > b->priority : a->number < b->number;
      });
  active_.insert(place, &node);
}

void TaskScheduler::finish(QueuedTask& node, const Status& status) {
  if (node.blocked == 0) std::erase(active_, &node);
  for (const QueuePosition& position : node.positions) leave(position);
  node.positions.clear();
  trim(node.positions);
  Task over = std::exchange(node.task, Task());
  put_away(nodes_, node.self, spare_nodes_);
  if (nodes_.empty()) trim(active_);
  over.finish(status);
}

// True if the work is done, with this status.
bool TaskScheduler::run_on(QueuedTask& node, bool& moved, Status& status) {
  comm::Communicator& communicator = node.task.communicator();
  bool done = true;
  status = run_for(communicator, [&]() -> Status {
    if (!node.begun) {
      // Nobody opens the fence of one that fails: its stream may wait for a peer that is gone.
      done = node.task.may_begin() || !communicator.failure().ok();
      if (!done) return {};
      node.begun = true;
      moved = true;
      communicator.begin_among_others(node.task.priority);
      if (Status begun = node.task.begin(); !begun.ok()) return begun;
    }
    const exec::Progress progress = node.task.operation->advance();
    moved = moved || progress != exec::Progress::kBlocked;
    done = progress == exec::Progress::kDone;
    return done ? node.task.operation->outcome() : Status();
  });
  const bool over = done || !status.ok();
  if (over && node.begun) communicator.end_among_others();
  return over;
}

// True if the task is finished. Of a failed one nobody waits for the streams: they may be held up
// by anything, and its host memory is theirs until they are past it.
bool TaskScheduler::step(QueuedTask& node, bool& moved) {
  if (!node.done) {
    if (!run_on(node, moved, node.outcome)) return false;
    node.done = true;
    moved = true;
    node.task.release();
  }
  if (node.outcome.ok() && !node.task.is_over()) return false;
  moved = true;
  finish(node, std::exchange(node.outcome, Status()));
  return true;
}

bool TaskScheduler::advance() {
  bool moved = false;
  int priority = 0;
  uint32_t begun = 0;
  for (size_t i = 0; i < active_.size();) {
    QueuedTask& node = *active_[i];
    if (moved && node.priority < priority) break;
    // A queue of tasks of which none has to wait is no single turn: others want theirs.
    if (!node.begun && begun++ >= kMostBegun) {
      ++i;
      continue;
    }
    const int own = node.priority;
    bool stepped = false;
    if (!step(node, stepped)) ++i;
    if (stepped) {
      moved = true;
      priority = own;
    }
  }
  return moved;
}

// Whether a stream moved.
bool TaskScheduler::idle(bool rare) {
  ++polls_;
  bool moved = false;
  // A task that has not begun, or is done, has no deadline to pass: its communicator would look at
  // the call before.
  for (QueuedTask* node : active_) {
    comm::Communicator& communicator = node->task.communicator();
    (void)run_for(communicator, [&] {
      moved = communicator.idle(rare && node->begun && !node->done) || moved;
      return Status();
    });
  }
  if (rare && active_.size() < nodes_.size()) retire_failed();
  return moved;
}

// Nobody else looks at a task that waits behind an operation of another communicator. A thread that
// ends the task's communicator must not have to wait for that operation: it may be the thread that
// has to end it next.
void TaskScheduler::retire_failed() {
  in_line_.clear();
  for (const auto& [order, queue] : queues_) {
    if (queue.is_communicators && !queue.batches.empty()) in_line_.push_back(order);
  }
  for (const void* communicator : in_line_) {
    while (QueuedTask* const node = failed_in_line(communicator)) end_failed(*node);
  }
  in_line_.clear();
  if (nodes_.size() <= kMostSpares) trim(in_line_);
}

void TaskScheduler::end_failed(QueuedTask& node) {
  comm::Communicator& communicator = node.task.communicator();
  finish(node, run_for(communicator, [&] {
           communicator.give_up();  // so begin() starts nothing
           return node.task.begin();
         }));
}

// The first operation of the communicator, since its operations end in their order. Null: there is
// none, or it need not wait. The communicator may be freed once its last operation has been told.
TaskScheduler::QueuedTask* TaskScheduler::failed_in_line(const void* communicator) {
  ++looks_;
  const auto queue = queues_.find(communicator);
  if (queue == queues_.end()) return nullptr;
  QueuedTask& node = *queue->second.batches.front().members.front().node;
  const bool failed = node.blocked > 0 && !node.task.communicator().failure().ok();
  return failed ? &node : nullptr;
}

void TaskScheduler::turn(Backoff& backoff) {
  // One communicator that moves must not hide from the others that their peers are gone.
  constexpr uint32_t kMostTurns = 256;
  const bool moved = advance();
  if (moved) backoff.reset();
  const bool rare = moved ? ++moving_turns_ == kMostTurns : backoff.pause();
  if (rare) moving_turns_ = 0;
  // Nor must it keep from theirs what has come for them over the network.
  if (moved && !rare && ++unpolled_turns_ < turns_a_poll_) return;
  unpolled_turns_ = 0;
  const bool streamed = idle(rare);
  if (!moved) return;
  turns_a_poll_ = streamed ? kLeastTurnsAPoll : std::min(2 * turns_a_poll_, kMostTurnsAPoll);
}

void TaskScheduler::run(uint32_t spins) {
  Backoff backoff(spins);
  while (!empty()) turn(backoff);
}

}  // namespace tutti::operation
