#include "src/bootstrap/watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/thread.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kBell = 0;
// Until a visit that found no memory is repeated.
constexpr uint64_t kAgainNs = 10 * kNanosecondsPerMillisecond;

uint32_t hang_up_of(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  const bool is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
  return EPOLLRDHUP | (is_socket ? 0u : EPOLLIN);
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::create(const char* thread_name) {
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
  Result<std::thread> thread = start_thread(thread_name, [raw = watch.get()] { raw->run(); });
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

Status Watch::attend(int fd, News news, Visit visit) {
  const MutexLock lock(mutex_);
  epoll_event event{};
  // Once per visit: a dead peer hangs up for ever, and what rests shall not be heard of at all.
  event.events = EPOLLONESHOT | (news == News::kHangUp ? hang_up_of(fd) : uint32_t{EPOLLIN});
  event.data.u64 = next_ticket_;
  auto kept = std::make_shared<const Visit>(std::move(visit));
  const auto [entry, is_new] =
      entries_.emplace(next_ticket_, Attended{fd, news, event.events, false, std::move(kept)});
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) {
    const int error = errno;
    entries_.erase(entry);
    errno = error;
    return errno_status("cannot watch descriptor " + std::to_string(fd) + ": epoll_ctl");
  }
  ++next_ticket_;
  return {};
}

Watch::Entries::iterator Watch::find(int fd) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const auto& entry) { return entry.second.fd == fd; });
}

// Whatever is there already is news.
void Watch::arm(const Entries::value_type& entry) {
  epoll_event event{};
  event.events = entry.second.events | (entry.second.output ? EPOLLOUT : 0u);
  event.data.u64 = entry.first;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, entry.second.fd, &event);
}

void Watch::hear_output(int fd) {
  const MutexLock lock(mutex_);
  const auto found = find(fd);
  if (found == entries_.end()) return;
  found->second.output = true;
  if (running_ != found->first) arm(*found);  // otherwise after the visit
}

void Watch::remove(int fd) {
  MutexLock lock(mutex_);
  const auto found = find(fd);
  if (found == entries_.end()) return;
  const uint64_t ticket = found->first;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (running_ != ticket) {
    entries_.erase(found);  // an event that is on its way finds nothing
    return;
  }
  if (std::this_thread::get_id() != thread_.get_id()) {
    idle_.wait(lock, [&] {
      mutex_.assert_held();
      return running_ != ticket;
    });
  }
  entries_.erase(ticket);
}

void Watch::run() {
  constexpr int kMostEvents = 16;
  for (;;) {
    std::array<epoll_event, kMostEvents> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), kMostEvents, wake_rested());
    for (int i = 0; i < count; ++i) {
      const uint64_t ticket = events[static_cast<size_t>(i)].data.u64;
      if (ticket == kBell) return;
      announce(ticket);
    }
  }
}

void Watch::announce(uint64_t ticket) {
  std::shared_ptr<const Visit> visit;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return;
    visit = found->second.visit;  // shared: it may remove its own entry
    found->second.output = false;
    running_ = ticket;
  }
  uint64_t rest_ns = kAgainNs;
  attempt([&] { rest_ns = (*visit)(); });
  {
    const MutexLock lock(mutex_);
    running_ = 0;
    after_visit(ticket, rest_ns);
  }
  idle_.notify_all();
}

void Watch::after_visit(uint64_t ticket, uint64_t rest_ns) {
  const auto found = entries_.find(ticket);
  if (found == entries_.end() || rest_ns == kForEver) return;
  try {
    if (rest_ns > 0) {
      resting_.emplace(monotonic_ns() + rest_ns, ticket);
    } else if (found->second.news == News::kInput) {
      arm(*found);
    }
  } catch (const std::bad_alloc&) {
    arm(*found);  // it does not rest
  }
}

// Descriptors that have rested are listened to again, and input that came meanwhile is heard.
// Returns the milliseconds until the next one has rested; -1: none rests.
int Watch::wake_rested() {
  const MutexLock lock(mutex_);
  const uint64_t now_ns = monotonic_ns();
  while (!resting_.empty() && resting_.begin()->first <= now_ns) {
    const uint64_t ticket = resting_.begin()->second;
    resting_.erase(resting_.begin());
    const auto found = entries_.find(ticket);
    if (found != entries_.end()) arm(*found);
  }
  if (resting_.empty()) return -1;
  constexpr uint64_t kMostMilliseconds = 1'000'000;
  const uint64_t rest_ms = (resting_.begin()->first - now_ns) / kNanosecondsPerMillisecond;
  return static_cast<int>(std::min(rest_ms, kMostMilliseconds)) + 1;
}

}  // namespace tutti::bootstrap
