// Runs a set of tasks in one thread: those that wait for no other are active, and all active ones
// advance together. A group of blocking calls is a Driver in the caller's thread; the Engine is one
// with a thread of its own.
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

class Driver {
 public:
  /// For so many tasks to come memory is kept.
  static constexpr size_t kMostSpares = 64;
  static constexpr uint32_t kMostBegun = 16;  // tasks in a turn
  /// Streams are moved once in so many turns that move something else: a poll costs a system call
  /// for each connection, so those that have nothing are asked more and more seldom.
  static constexpr uint32_t kLeastTurnsAPoll = 4, kMostTurnsAPoll = 64;

  Driver();

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
  struct Chain;
  struct Stage;
  struct Seat {
    Stage* stage = nullptr;
    size_t place = 0;  // among the stage's members
  };
  struct QueuedTask {
    Task task;
    std::list<QueuedTask>::iterator self;
    uint64_t number = 0;  // rising
    int priority = 0;     // its own, or that of what waits for it
    bool begun = false;
    bool done = false;  // with this outcome; its streams are not past it
    Status outcome;
    uint32_t blocked = 0;     // seats in stages that are not the first
    std::vector<Seat> seats;  // one in every chain that it is in
  };
  struct StageMember {
    QueuedTask* node = nullptr;
    size_t seat = 0;  // which of the node's
  };
  /// The tasks that a chain runs together: one, or those of a group.
  struct Stage {
    Chain* chain = nullptr;
    Stage* before = nullptr;  // null: it is the first, its members need not wait for this chain
    uint64_t group = 0;
    int priority = 0;                  // the highest of what waits for it
    std::vector<StageMember> members;  // unfinished; none if all failed in line
  };
  /// Of a communicator or stream.
  struct Chain {
    const void* order = nullptr;
    bool is_communicators = false;
    std::list<Stage> stages;
  };
  using Chains = std::unordered_map<const void*, Chain>;

  QueuedTask& new_node();
  void line_up(QueuedTask& node);
  Chain& chain_of(const void* order);
  void free_chain(const Chain& chain);
  void take_seat(QueuedTask& node, const void* order, uint64_t group);
  void take_communicators_seat(QueuedTask& node);
  void take_seat_before(QueuedTask& node, Chain& chain, std::list<Stage>::iterator later,
                        uint64_t group);
  std::list<Stage>::iterator first_to_wait(Chain& chain);
  void leave(const Seat& seat);
  void end_first_stages(Chain& chain);
  void promote(Stage* stage, int priority);
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
  Chains chains_;
  std::list<QueuedTask> nodes_;
  std::vector<QueuedTask*> active_;  // by priority, then age
  // Reused, so that a queue in use allocates nothing; at most kMostSpares of each.
  std::list<QueuedTask> spare_nodes_;
  std::list<Stage> spare_stages_;
  std::vector<Chains::node_type> spare_chains_;
  std::vector<Stage*> raised_;        // of promote()
  std::vector<const void*> in_line_;  // of retire_failed()
};

}  // namespace tutti::operation
