#include "src/base/poll_set.h"

#include <cerrno>
#include <utility>

namespace tutti {

Result<std::unique_ptr<PollSet>> PollSet::create() {
  KeptFd fd = KeptFd::open([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!fd.valid()) return errno_status("epoll_create1");
  return std::unique_ptr<PollSet>(new PollSet(std::move(fd)));
}

std::span<const epoll_event> PollSet::ready(std::span<epoll_event> events) const {
  const int count = epoll_wait(fd_.get(), events.data(), static_cast<int>(events.size()), 0);
  return events.first(count < 0 ? 0 : static_cast<size_t>(count));
}

PolledFd::PolledFd(PolledFd&& other) noexcept
    : fd_(std::move(other.fd_)), set_(std::exchange(other.set_, nullptr)) {}

PolledFd& PolledFd::operator=(PolledFd&& other) noexcept {
  if (this == &other) return *this;
  unlist();
  fd_ = std::move(other.fd_);
  set_ = std::exchange(other.set_, nullptr);
  return *this;
}

Status PolledFd::list(const PollSet& set, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  const int action = set_ == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(set.fd(), action, fd_.get(), &event) < 0) return errno_status("epoll_ctl");
  set_ = &set;
  return {};
}

KeptFd PolledFd::take() {
  unlist();
  return std::move(fd_);
}

void PolledFd::unlist() {
  if (set_ != nullptr) epoll_ctl(set_->fd(), EPOLL_CTL_DEL, fd_.get(), nullptr);
  set_ = nullptr;
}

}  // namespace tutti
