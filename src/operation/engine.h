// The thread that runs HOST streams and the groups that use one; it sleeps while nothing is queued.
//
// Threads: submit() from any. Errors: kSystemError where there can be no thread; the failure of a
// task is told where the task says. Lifetime: every task that was submitted is finished before the
// engine ends.
#pragma once

#include <condition_variable>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/operation/task_scheduler.h"

namespace tutti::operation {

class StreamEngine {
 public:
  static Result<std::unique_ptr<StreamEngine>> create();
  ~StreamEngine();
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;

  /// Announces the task and takes it. Where there is no memory for it, this throws, and the task is
  /// as it was.
  void submit(Task& task);
  /// The same as a whole: nothing of another thread comes between.
  void submit(std::span<Task> group);

 private:
  StreamEngine() = default;
  void loop();
  void take(std::span<Task> tasks, bool as_group);

  Mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> inbox_ TUTTI_GUARDED_BY(mutex_);
  uint64_t groups_ TUTTI_GUARDED_BY(mutex_) = 0;
  bool stop_ TUTTI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::operation
