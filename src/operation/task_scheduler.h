// Runs a set of tasks in one thread: those that wait for no other are active, and all active ones
// advance together. A group of blocking calls is a TaskScheduler in the caller's thread; the Engine
// is one with a thread of its own.
//
// Ordering: tasks of one communicator run in the order they were added, and so do those of one
// stream unless they belong to one group. But a replay, whose streams have come, goes before those
// of its communicator that have not begun: their streams come behind it. Of the active ones, a
// lower priority advances when no higher one can; a task that holds up one of higher priority has
// that priority. One whose communicator has failed before its turn ends without waiting for other
// communicators'. Errors: a task's failure is told where the task says; the others go on. Threads:
// one. A task costs the same however many are queued, and when they are finished little of their
// memory is kept.
#pragma once

#include <list>
#include <unordered_map>
#include <vector>

#include "src/base/wait.h"
#include "src/operation/task.h"

namespace tutti::operation {

class TaskScheduler {
 public:
  /// For so many tasks to come memory is kept.
  static constexpr size_t kMostSpares = 64;
  static constexpr uint32_t kMostBegun = 16;  // tasks in a turn
  /// Streams are moved once in so many turns that move something else: a poll costs a system call
  /// for each connection, so those that have nothing are asked more and more seldom.
  static constexpr uint32_t kLeastTurnsAPoll = 4, kMostTurnsAPoll = 64;

  TaskScheduler();

  /// Where there is no memory for it, the task ends at once and its communicator fails.
  void add(Task task);
  bool empty() const { return nodes_.empty(); }
  /// Advances what is active once. Where nothing moved it waits a little; now and then it looks at
  /// what is rare: failures, deadlines.
  void turn(Backoff& backoff);
  /// Until all tasks are finished, waiting in between.
  void run(uint32_t spins);

  /// The cost of a queue: how often a task's place in line was looked at, so far, and for how many
  /// tasks there is memory.
  uint64_t looks() const { return looks_; }
  size_t room() const { return nodes_.size() + spare_nodes_.size(); }
  /// How often the streams of what is active were moved, so far.
  uint64_t polls() const { return polls_; }

 private:
  struct TaskQueue;
  struct TaskBatch;
  struct QueuePosition {
    TaskBatch* batch = nullptr;
    size_t place = 0;  // among the batch's members
  };
  struct QueuedTask {
    Task task;
    std::list<QueuedTask>::iterator self;
    uint64_t number = 0;  // rising
    int priority = 0;     // its own, or that of what waits for it
    bool begun = false;
    bool done = false;  // with this outcome; its streams are not past it
    Status outcome;
    uint32_t blocked = 0;                  // positions in batches that are not the first
    std::vector<QueuePosition> positions;  // one in every queue that it is in
  };
  struct BatchMember {
    QueuedTask* node = nullptr;
    size_t position = 0;  // which of the node's
  };
  /// The tasks that a queue runs together: one, or those of a group.
  struct TaskBatch {
    TaskQueue* queue = nullptr;
    TaskBatch* before = nullptr;  // null: it is the first, its members need not wait for this queue
    uint64_t group = 0;
    int priority = 0;                  // the highest of what waits for it
    std::vector<BatchMember> members;  // unfinished; none if all failed in line
  };
  /// Of a communicator or stream.
  struct TaskQueue {
    const void* order = nullptr;
    bool is_communicators = false;
    std::list<TaskBatch> batches;
  };
  using TaskQueues = std::unordered_map<const void*, TaskQueue>;

  QueuedTask& new_node();
  void line_up(QueuedTask& node);
  TaskQueue& queue_of(const void* order);
  void free_queue(const TaskQueue& queue);
  void take_position(QueuedTask& node, const void* order, uint64_t group);
  void take_communicators_position(QueuedTask& node);
  void take_position_before(QueuedTask& node, TaskQueue& queue,
                            std::list<TaskBatch>::iterator later, uint64_t group);
  std::list<TaskBatch>::iterator first_to_wait(TaskQueue& queue);
  void leave(const QueuePosition& position);
  void end_first_batches(TaskQueue& queue);
  void promote(TaskBatch* batch, int priority);
  void raise(QueuedTask& node, int priority);
  void activate(QueuedTask& node);
  bool advance();
  bool step(QueuedTask& node, bool& moved);
  bool run_on(QueuedTask& node, bool& moved, Status& status);
  bool idle(bool rare);
  void retire_failed();
  QueuedTask* failed_in_line(const void* communicator);
  void end_failed(QueuedTask& node);
  void finish(QueuedTask& node, const Status& status);

  uint64_t added_ = 0;
  uint64_t looks_ = 0;
  uint64_t polls_ = 0;
  uint32_t moving_turns_ = 0;    // since the last look at what is rare
  uint32_t unpolled_turns_ = 0;  // since streams were last moved
  uint32_t turns_a_poll_ = kLeastTurnsAPoll;
  TaskQueues queues_;
  std::list<QueuedTask> nodes_;
  std::vector<QueuedTask*> active_;  // by priority, then age
  // Reused, so that a queue in use allocates nothing; at most kMostSpares of each.
  std::list<QueuedTask> spare_nodes_;
  std::list<TaskBatch> spare_batches_;
  std::vector<TaskQueues::node_type> spare_queues_;
  std::vector<TaskBatch*> raised_;    // of promote()
  std::vector<const void*> in_line_;  // of retire_failed()
};

}  // namespace tutti::operation
