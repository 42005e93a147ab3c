#include "src/operation/engine.h"

#include <algorithm>
#include <utility>

#include "src/base/thread.h"

namespace tutti::operation {

Result<std::unique_ptr<StreamEngine>> StreamEngine::create() {
  std::unique_ptr<StreamEngine> made(new StreamEngine);
  Result<std::thread> thread = start_thread("tutti-engine", [raw = made.get()] { raw->loop(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = std::move(thread).value();
  return made;
}

StreamEngine::~StreamEngine() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StreamEngine::submit(Task& task) { take({&task, 1}, false); }

void StreamEngine::submit(std::span<Task> group) { take(group, true); }

void StreamEngine::take(std::span<Task> tasks, bool as_group) {
  {
    const MutexLock lock(mutex_);
    const size_t wanted = inbox_.size() + tasks.size();
    if (wanted > inbox_.capacity()) inbox_.reserve(std::max(wanted, 2 * inbox_.capacity()));
    if (as_group) ++groups_;
    for (Task& task : tasks) {
      if (as_group) task.group = groups_;
      task.announce();
      inbox_.push_back(std::move(task));
    }
  }
  wake_.notify_one();
}

void StreamEngine::loop() {
  constexpr size_t kMostKept = 4 * TaskScheduler::kMostSpares;
  TaskScheduler scheduler;
  Backoff backoff(20);
  std::vector<Task> arrived;
  for (;;) {
    {
      MutexLock lock(mutex_);
      const auto has_work = [this] {
        mutex_.assert_held();
        return stop_ || !inbox_.empty();
      };
      if (scheduler.empty()) wake_.wait(lock, has_work);
      if (stop_ && inbox_.empty() && scheduler.empty()) return;
      arrived.swap(inbox_);
    }
    for (Task& task : arrived) scheduler.add(std::move(task));
    arrived.clear();
    if (arrived.capacity() > kMostKept) std::vector<Task>().swap(arrived);
    scheduler.turn(backoff);
  }
}

}  // namespace tutti::operation
