// Runs a set of tasks in one thread: those that wait for no other are active, and all active ones
// advance together. A group of blocking calls is a Driver in the caller's thread; the Engine is one
// with a thread of its own.
//
// Ordering: tasks of one communicator run in the order they were added, and so do those of one
// stream unless they belong to one group. Of the active ones, a lower priority advances when no
// higher one can; a task that holds up one of higher priority has that priority. One whose
// communicator has failed before its turn ends without waiting for other communicators'. Errors: a
// task's failure is told where the task says; the others go on. Threads: one.
#pragma once

#include <deque>
#include <vector>

#include "src/comm/task.h"
#include "src/exec/wait.h"

namespace tutti::comm {

class Driver {
 public:
  void add(Task task);
  bool empty() const { return free_.size() == nodes_.size(); }
  /// Advances what is active once. Where nothing moved it waits a little; now and then it looks at
  /// what is rare: failures, deadlines.
  void turn(exec::Backoff& backoff);
  /// Until all tasks are finished, waiting in between.
  void run(uint32_t spins);

 private:
  struct Node {
    Task task;
    uint64_t number = 0;  // rising
    int priority = 0;     // its own, or that of what waits for it
    bool begun = false;
    std::vector<Node*> ahead, behind;  // what it waits for, what waits for it
  };
  /// The unfinished tasks of a communicator or stream that the next one may have to wait for.
  struct Chain {
    const void* order = nullptr;
    uint64_t group = 0;
    std::vector<Node*> before, last;  // `last` is the latest task or group, `before` the one before
  };

  Node& new_node(Task task);
  /// Null: nothing unfinished is in that order.
  Chain* find_chain(const void* order);
  void append(Node& node, const void* order, uint64_t group);
  void remove(Node& node, const void* order);
  static void put_behind(Node& later, Node& earlier);
  void promote(Node& node, int priority);
  void activate(Node& node);
  bool advance();
  bool step(Node& node, bool& moved);
  void idle(bool rare);
  void retire_failed();
  static bool has_failed_in_line(const Node& node);
  void bequeath(const Node& node, const Task::Stream& stream);
  Node* retire(Node& node);
  void finish(Node& node, const Status& status);

  uint64_t added_ = 0;
  uint32_t moving_turns_ = 0;  // since the last look at what is rare
  std::deque<Node> nodes_;     // reused, so that a queue in use allocates nothing
  std::vector<Node*> free_;
  std::vector<Chain> chains_;  // the first `chain_count_` are in use
  size_t chain_count_ = 0;
  std::vector<Node*> active_;  // by priority, then age
  std::vector<Node*> raised_;  // of promote()
};

}  // namespace tutti::comm
