#include "lane.h"

#include <pthread.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "errors.h"
#include "interpreter.h"

namespace tutti_torch {

Lane::Lane(Place place, Observer observer)
    : communicator_(std::move(place)), observer_(std::move(observer)), pid_(getpid()) {}

Lane::~Lane() {
  if (!thread_.joinable()) return;
  if (getpid() != pid_) {
    // The thread is the parent's: there is nothing to join, and a std::thread that could be joined
    // must not be destroyed.
    new (&thread_) std::thread;
  } else if (in_own_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

bool Lane::in_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

void Lane::check_process() const {
  if (getpid() == pid_) return;
  throw CallError(tuttiInvalidUsage, "tutti: " + communicator_.place().name +
                                         " belongs to the parent of this forked process; make a "
                                         "process group here, or start the process by spawn");
}

void Lane::start_thread() {
  if (thread_.joinable()) return;
  thread_ = std::thread([self = shared_from_this()] { self->loop(); });
  pthread_setname_np(thread_.native_handle(), "tutti-torch");
}

void Lane::submit(WorkPtr work) {
  check_process();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) {
      throw CallError(tuttiInvalidUsage, "tutti: " + communicator_.place().name + " was shut down");
    }
    start_thread();
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Lane::run(const WorkPtr& work) {
  check_process();
  {
    std::unique_lock lock(mutex_);
    if (queue_.empty() && !busy_ && !stop_) {
      execute(work, lock);
      if (!queue_.empty() || stop_) changed_.notify_all();
      lock.unlock();
      go_back();
      return;
    }
  }
  submit(work);
  help(*work);
}

bool Lane::exclusively(std::chrono::milliseconds timeout,
                       const std::function<void(Communicator&)>& work) {
  check_process();
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  while (!queue_.empty() || busy_ || stop_) {
    if (std::chrono::steady_clock::now() > end) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(1));  // not every end of a call is told
  }
  busy_ = true;
  lock.unlock();
  const auto let_go = [&] {
    lock.lock();
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
  };
  try {
    work(communicator_);
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
  return true;
}

void Lane::go_back() const {
  if (!in_own_thread()) return_to_interpreter();
}

void Lane::help(WorkTutti& work) {
  if (!in_own_thread()) return;
  std::unique_lock lock(mutex_);
  while (!work.done() && !queue_.empty()) {
    changed_.wait(lock, [this] { return !busy_; });
    if (!queue_.empty()) run_next(lock);
  }
}

void Lane::run_next(std::unique_lock<std::mutex>& lock) {
  const WorkPtr work = std::move(queue_.front());
  queue_.pop_front();
  execute(work, lock);
}

// Nobody else runs a call meanwhile; the next may begin before the futures' callbacks do.
void Lane::execute(const WorkPtr& work, std::unique_lock<std::mutex>& lock) {
  busy_ = true;
  lock.unlock();
  work->run(*this);
  lock.lock();
  busy_ = false;
  const bool others_wait = thread_.joinable();
  lock.unlock();
  if (others_wait) changed_.notify_all();
  work->settle();
  lock.lock();
}

void Lane::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return queue_.empty() ? stop_ : !busy_; });
    if (queue_.empty()) return;
    run_next(lock);
  }
}

void Lane::observe(WorkTutti& work, const std::exception_ptr& error) {
  if (!is_shut_out_of_interpreter()) observer_(work, error);  // hooks are Python's
}

void Lane::abort() { communicator_.abort(); }

void Lane::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void Lane::shutdown() {
  if (getpid() != pid_) return;
  stop();
  if (!in_own_thread()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
    lock.unlock();
    if (thread_.joinable()) thread_.join();
  }
  communicator_.destroy();
}

void Lane::abandon() {
  if (getpid() != pid_) return;
  abort();
  stop();
  if (thread_.joinable() && !in_own_thread()) thread_.join();
}

}  // namespace tutti_torch
