#include "src/comm/engine.h"

#include <utility>

#include "src/base/thread.h"

namespace tutti::comm {

Result<std::unique_ptr<Engine>> Engine::create() {
  std::unique_ptr<Engine> made(new Engine);
  Result<std::thread> thread = start_thread("tutti-engine", [raw = made.get()] { raw->loop(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = std::move(thread).value();
  return made;
}

Engine::~Engine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Engine::submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Engine::submit(std::span<Task> group) {
  {
    const std::lock_guard lock(mutex_);
    ++groups_;
    for (Task& task : group) {
      task.group = groups_;
      inbox_.push_back(std::move(task));
    }
  }
  wake_.notify_one();
}

void Engine::loop() {
  constexpr size_t kMostKept = 4 * Driver::kMostSpares;
  Driver driver;
  exec::Backoff backoff(20);
  std::vector<Task> arrived;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (driver.empty()) wake_.wait(lock, [this] { return stop_ || !inbox_.empty(); });
      if (stop_ && inbox_.empty() && driver.empty()) return;
      arrived.swap(inbox_);
    }
    for (Task& task : arrived) driver.add(std::move(task));
    arrived.clear();
    if (arrived.capacity() > kMostKept) std::vector<Task>().swap(arrived);
    driver.turn(backoff);
  }
}

}  // namespace tutti::comm
