#include "src/bootstrap/watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/thread.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kBell = 0;

uint32_t events_of(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  const bool is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
  // Once: a dead peer hangs up for ever and would keep the thread awake.
  return EPOLLRDHUP | EPOLLONESHOT | (is_socket ? 0u : EPOLLIN);
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errno_status("epoll_create1");
  Fd bell(eventfd(0, EFD_CLOEXEC));
  if (!bell.valid()) return errno_status("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.get(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  std::unique_ptr<Watch> watch(new Watch(std::move(epoll), std::move(bell)));
  Result<std::thread> thread = start_thread("tutti-watch", [raw = watch.get()] { raw->run(); });
  if (!thread.ok()) return thread.status();
  watch->thread_ = std::move(thread).value();
  return watch;
}

Watch::~Watch() {
  if (!thread_.joinable()) return;
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
  thread_.join();
}

Status Watch::add(int fd, Callback callback, bool repeat) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = repeat ? static_cast<uint32_t>(EPOLLIN) : events_of(fd);
  event.data.u64 = next_ticket_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) {
    return errno_status("cannot watch descriptor " + std::to_string(fd) + ": epoll_ctl");
  }
  entries_.emplace(next_ticket_, Entry{fd, std::move(callback)});
  ++next_ticket_;
  return {};
}

void Watch::remove(int fd) {
  std::unique_lock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.second.fd == fd; });
  if (found == entries_.end()) return;
  const uint64_t ticket = found->first;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (running_ != ticket) {
    entries_.erase(found);  // an event that is on its way finds nothing
    return;
  }
  if (std::this_thread::get_id() != thread_.get_id()) {
    idle_.wait(lock, [&] { return running_ != ticket; });
  }
  entries_.erase(ticket);
}

void Watch::run() {
  constexpr int kMostEvents = 16;
  for (;;) {
    std::array<epoll_event, kMostEvents> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), kMostEvents, -1);
    for (int i = 0; i < count; ++i) {
      const uint64_t ticket = events[static_cast<size_t>(i)].data.u64;
      if (ticket == kBell) return;
      announce(ticket);
    }
  }
}

void Watch::announce(uint64_t ticket) {
  Callback callback;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return;
    callback = found->second.callback;  // a copy: it may remove its own entry
    running_ = ticket;
  }
  callback();
  {
    const std::lock_guard lock(mutex_);
    running_ = 0;
  }
  idle_.notify_all();
}

}  // namespace tutti::bootstrap
