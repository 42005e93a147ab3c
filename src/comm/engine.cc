#include "src/comm/engine.h"

#include <algorithm>
#include <utility>

namespace tutti::comm {

void Completion::add() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void Completion::finish(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (first_error_.ok() && !status.ok()) first_error_ = status;
  if (--open_ == 0) idle_.notify_all();
}

Status Completion::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return open_ == 0; });
  return std::exchange(first_error_, Status());
}

void Driver::add(Task task) { tasks_.push_back({std::move(task)}); }

bool Driver::is_blocked(size_t index) const {
  const Task& task = tasks_[index].task;
  return std::any_of(tasks_.begin(), tasks_.begin() + static_cast<ptrdiff_t>(index),
                     [&](const Running& earlier) {
                       return earlier.task.communicator == task.communicator ||
                              (task.stream != nullptr && earlier.task.stream == task.stream);
                     });
}

// True if the task is finished.
bool Driver::step(Running& running, bool& moved) {
  Communicator& communicator = *running.task.communicator;
  Status status;
  if (!running.begun) {
    running.begun = true;
    moved = true;
    status =
        std::visit([&](const auto& work) { return communicator.begin(work, running.task.ticket); },
                   running.task.work);
  }
  if (status.ok()) {
    const exec::Progress progress = communicator.advance();
    moved = moved || progress != exec::Progress::kBlocked;
    if (progress != exec::Progress::kDone) return false;
    status = communicator.status();
  }
  moved = true;
  communicator.conclude(status);
  communicator.pending.fetch_sub(1, std::memory_order_release);
  running.task.completion->finish(status);
  return true;
}

bool Driver::advance() {
  bool moved = false;
  for (size_t i = 0; i < tasks_.size();) {
    if (!is_blocked(i) && step(tasks_[i], moved)) {
      tasks_.erase(tasks_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return moved;
}

void Driver::idle(bool rare) {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!is_blocked(i)) tasks_[i].task.communicator->idle(rare);
  }
}

void Driver::run(uint32_t spins) {
  exec::Backoff backoff(spins);
  while (!tasks_.empty()) {
    if (advance()) {
      backoff.reset();
    } else {
      idle(backoff.pause());
    }
  }
}

Engine::Engine() : thread_([this] { loop(); }) {}

Engine::~Engine() {
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

void Engine::loop() {
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
    if (driver.advance()) {
      backoff.reset();
    } else {
      driver.idle(backoff.pause());
    }
  }
}

}  // namespace tutti::comm
