#include "src/drivers/cuda/reaper.h"

#include <utility>

#include "src/base/thread.h"

namespace tutti::drivers::cuda {

Reaper& Reaper::get() {
  // tidy: allow mutable (one thread for all of the process)
  static auto* const known = new Reaper;  // for the process's life
  return *known;
}

void Reaper::take(std::unique_ptr<Kept> kept) {
  const MutexLock lock(mutex_);
  if (!runs_) {
    Result<std::thread> thread = start_thread("tutti-reaper", [this] { loop(); });
    if (!thread.ok()) return (void)kept.release();
    thread.value().detach();
    runs_ = true;
  }
  taken_.push_back(std::move(kept));
  changed_.notify_one();
}

void Reaper::loop() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      mutex_.assert_held();
      return !taken_.empty();
    });
    std::vector<std::unique_ptr<Kept>> over = std::exchange(taken_, {});
    lock.unlock();
    over.clear();
    lock.lock();
  }
}

}  // namespace tutti::drivers::cuda
