#include "src/diagnosis/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace tutti::diagnosis {

Bell::Bell(int ranks) : has_rung_(static_cast<size_t>(ranks)) {
  answered_.reserve(has_rung_.size());
  rung_.reserve(has_rung_.size());
}

Status Bell::open() {
  fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd_.valid() ? Status() : errno_status("eventfd");
}

void Bell::ring(int rank) {
  const MutexLock lock(mutex_);
  if (has_rung_[static_cast<size_t>(rank)] != 0) return;
  has_rung_[static_cast<size_t>(rank)] = 1;
  rung_.push_back(rank);
  const uint64_t once = 1;
  [[maybe_unused]] const ssize_t bytes = write(fd_.get(), &once, sizeof once);
}

std::span<const int> Bell::answer() {
  uint64_t times = 0;
  [[maybe_unused]] const ssize_t bytes = read(fd_.get(), &times, sizeof times);
  answered_.clear();
  const MutexLock lock(mutex_);
  answered_.swap(rung_);
  std::fill(has_rung_.begin(), has_rung_.end(), uint8_t{0});
  return answered_;
}

}  // namespace tutti::diagnosis
