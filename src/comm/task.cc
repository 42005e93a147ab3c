#include "src/comm/task.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"

namespace tutti::comm {

void Completion::add() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

// A listener may end the handle, and with it this.
void Completion::finish(const Status& status) {
  std::function<void(const Status&)> listener;
  Status outcome;
  {
    const std::lock_guard lock(mutex_);
    if (first_error_.ok() && !status.ok()) first_error_ = status;
    if (--open_ > 0) return;
    if (times_.began_ns != 0) times_.ended_ns = monotonic_ns();
    listener = std::exchange(listener_, nullptr);
    outcome = first_error_;
    idle_.notify_all();
  }
  if (listener != nullptr) listener(outcome);
}

void Completion::begin(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  times_.began_ns = now_ns;
}

Status Completion::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return open_ == 0; });
  return std::exchange(first_error_, Status());
}

Status Completion::outcome() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return open_ == 0; });
  return first_error_;
}

bool Completion::is_done(Status& status) {
  const std::lock_guard lock(mutex_);
  if (open_ > 0) return false;
  status = first_error_;
  return true;
}

bool Completion::is_done_by(uint64_t deadline_ns, Status& status) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return open_ == 0; };
  constexpr auto kLast = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (deadline_ns > kLast) {
    idle_.wait(lock, idle);
  } else {
    const std::chrono::nanoseconds at(static_cast<int64_t>(deadline_ns));
    if (!idle_.wait_until(lock, std::chrono::steady_clock::time_point(at), idle)) return false;
  }
  status = first_error_;
  return true;
}

bool Completion::call_back(std::function<void(const Status& outcome)> listener) {
  Status outcome;
  {
    const std::lock_guard lock(mutex_);
    if (listener_ != nullptr) return false;
    if (open_ > 0) {
      listener_ = std::move(listener);
      return true;
    }
    outcome = first_error_;
  }
  listener(outcome);
  return true;
}

Completion::Times Completion::times() {
  const std::lock_guard lock(mutex_);
  return times_;
}

void Completion::reset() {
  const std::lock_guard lock(mutex_);
  first_error_ = Status();
  times_ = {};
  listener_ = nullptr;
}

std::span<const exec::Transfer> Task::transfers() const {
  if (const auto* single = std::get_if<exec::Transfer>(&work)) return {single, 1};
  return std::get<std::vector<exec::Transfer>>(work);
}

void Task::adopt() {
  auto* request = std::get_if<Request>(&work);
  if (request == nullptr) return;
  request->extras = &extras;
  if (request->counts != nullptr) request->counts = &counts.view();
}

bool Task::is_on(const TaskStream& one) const {
  const auto is_same = [&](const TaskStream& other) { return other.order == one.order; };
  return is_same(stream) || std::any_of(more_streams.begin(), more_streams.end(), is_same);
}

Status Task::check() const { return is_transfer() ? communicator->check(transfers()) : Status(); }

void Task::announce() {
  adopt();
  if (is_transfer()) {
    ticket = communicator->queue(transfers());
  } else {
    ticket = is_request() ? communicator->queue(std::get<Request>(work))
                          : communicator->queue(std::get<Access>(work));
  }
  stream.completion->add();
  for (const TaskStream& other : more_streams) other.completion->add();
  communicator->pending.fetch_add(1, std::memory_order_relaxed);
}

// The end of a communicator waits for what is pending, so also for listeners. After that it
// may be freed: who waits for a stream is told last.
void Task::finish(const Status& status) {
  release();
  attempt([&] { communicator->conclude(status); });
  tell(status);
  communicator->pending.fetch_sub(1, std::memory_order_release);
  for (const TaskStream& other : more_streams) other.completion->finish(status);
  stream.completion->finish(status);
}

void Task::tell(const Status& status) const {
  for (const auto& handle : handles) handle->finish(status);
}

bool Task::may_begin() const {
  return std::all_of(fences.begin(), fences.end(), [](const auto& one) { return one->is_open(); });
}

void Task::release() const {
  for (const auto& fence : fences) fence->release();
}

bool Task::is_over() const {
  return std::all_of(fences.begin(), fences.end(), [](const auto& one) { return one->is_over(); });
}

Status Task::begin() {
  adopt();
  for (const auto& handle : handles) handle->begin(monotonic_ns());
  const uint64_t timeout_ns = communicator->options_of(&extras).timeout_ns;
  if (const auto* request = std::get_if<Request>(&work)) {
    return communicator->begin(*request, ticket);
  }
  if (const auto* access = std::get_if<Access>(&work)) {
    return communicator->begin(*access, timeout_ns, ticket);
  }
  return communicator->begin(transfers(), timeout_ns, ticket);
}

Result<double> Task::predict_ns() {
  adopt();
  if (const auto* request = std::get_if<Request>(&work)) return communicator->predict_ns(*request);
  if (const auto* access = std::get_if<Access>(&work)) return communicator->predict_ns(*access);
  return communicator->predict_ns(transfers());
}

}  // namespace tutti::comm
