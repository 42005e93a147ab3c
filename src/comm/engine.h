// Operations that do not run in the thread that called them: groups and HOST streams.
//
// A Driver runs a set of tasks in one thread: the first unfinished task of every communicator and
// of every stream is active, all active ones advance together. A group with blocking streams is a
// Driver in the caller's thread; the Engine is one with a thread of its own.
//
// Ordering: tasks of one communicator, and of one stream, run in the order they were added. Errors:
// a task's failure is kept by its stream or group; the others go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "src/comm/communicator.h"

namespace tutti::comm {

/// Where the outcome of tasks is collected: a HOST stream, or a group.
class Completion {
 public:
  void add();
  void finish(const Status& status);
  /// Until nothing added is unfinished; the first error since the last wait().
  Status wait();

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  uint64_t open_ = 0;
  Status first_error_;
};

struct Task {
  Communicator* communicator = nullptr;
  std::variant<Request, std::vector<exec::Transfer>> work;
  std::shared_ptr<Completion> completion;
  uint64_t ticket = 0;           // Communicator::queue
  const void* stream = nullptr;  // tasks with equal non-null streams keep their order
};

class Driver {
 public:
  void add(Task task);
  bool empty() const { return tasks_.empty(); }
  /// Advances what is active. True if anything moved.
  bool advance();
  void idle(bool rare);
  /// Until all tasks are finished, waiting in between.
  void run(uint32_t spins);

 private:
  struct Running {
    Task task;
    bool begun = false;
  };
  bool is_blocked(size_t index) const;
  bool step(Running& running, bool& moved);

  std::deque<Running> tasks_;
};

/// One thread for all HOST streams of a process; it sleeps while nothing is queued.
class Engine {
 public:
  Engine();
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void submit(Task task);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> inbox_;  // under mutex_
  bool stop_ = false;        // under mutex_
  std::thread thread_;
};

}  // namespace tutti::comm
