#include "src/comm/attendant.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/clock.h"
#include "src/base/thread.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kBell = 0;
constexpr uint64_t kRestNs = 1'000'000;

}  // namespace

Status Attendant::start() {
  if (thread_.joinable()) return {};
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return errno_status("epoll_create1");
  bell_.reset(eventfd(0, EFD_CLOEXEC));
  if (!bell_.valid()) return errno_status("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  Result<std::thread> thread = start_thread("tutti-onesided", [this] { run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(thread).value();
  return {};
}

Attendant::~Attendant() {
  if (!thread_.joinable()) return;
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
  thread_.join();
}

Status Attendant::attend(transport::Link& link) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (Status status = start(); !status.ok()) return status;
    ticket = next_ticket_++;
    entries_.emplace(ticket, Entry{&link, 0});
  }
  // Not under mutex_: the link calls wake() under a lock of its own.
  link.one_sided()->on_answers([this, ticket] { wake(ticket); });
  Status joined;
  if (link.state() != transport::Link::State::kIdle &&
      link.state() != transport::Link::State::kWanted) {
    joined = join(ticket);
  } else {
    link.on_settled([this, ticket] { (void)join(ticket); });
  }
  if (!joined.ok()) leave(link);
  return joined;
}

// The link has its descriptor.
Status Attendant::join(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(ticket);
  const int fd = found == entries_.end() ? -1 : found->second.link->one_sided()->descriptor();
  if (fd < 0) return {};
  epoll_event event{};
  event.events = EPOLLONESHOT;  // armed below
  event.data.u64 = ticket;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) return errno_status("epoll_ctl");
  arm(ticket, found->second);
  return {};
}

void Attendant::leave(transport::Link& link) {
  link.one_sided()->on_answers({});
  std::unique_lock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.second.link == &link; });
  if (found == entries_.end()) return;
  const uint64_t ticket = found->first;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.one_sided()->descriptor(), nullptr);
  entries_.erase(found);  // an event that is on its way finds nothing
  idle_.wait(lock, [&] { return running_ != ticket; });
}

// Under mutex_. Once per event, so that data which a call is about to take does not keep the thread
// awake; whatever is there already when it is armed is an event.
bool Attendant::arm(uint64_t ticket, Entry& entry) {
  transport::OneSided& access = *entry.link->one_sided();
  entry.rests_until_ns = 0;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT | (access.has_output() ? EPOLLOUT : 0u);
  event.data.u64 = ticket;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, access.descriptor(), &event) == 0;
}

// Answers to a peer are left to be sent, or the link is new.
void Attendant::wake(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(ticket);
  if (found == entries_.end() || running_ == ticket) return;  // visit() looks itself
  arm(ticket, found->second);
}

void Attendant::visit(uint64_t ticket) {
  transport::Link* link = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return;
    link = found->second.link;
    running_ = ticket;
  }
  const bool moved = link->stream()->progress();
  const bool alive = link->status().ok();
  {
    const std::lock_guard lock(mutex_);
    running_ = 0;
    const auto found = entries_.find(ticket);
    if (found != entries_.end() && alive) {
      if (moved) {
        arm(ticket, found->second);
      } else {
        found->second.rests_until_ns = monotonic_ns() + kRestNs;
      }
    }
  }
  idle_.notify_all();
}

// Milliseconds until the next one has rested; -1: none rests.
int64_t Attendant::rearm_rested() {
  const std::lock_guard lock(mutex_);
  const uint64_t now = monotonic_ns();
  bool resting = false;
  for (auto& [ticket, entry] : entries_) {
    if (entry.rests_until_ns == 0) continue;
    if (entry.rests_until_ns <= now) {
      arm(ticket, entry);
    } else {
      resting = true;
    }
  }
  return resting ? 1 : -1;
}

void Attendant::run() {
  constexpr int kMostEvents = 16;
  for (;;) {
    std::array<epoll_event, kMostEvents> events{};
    const int timeout = static_cast<int>(rearm_rested());
    const int count = epoll_wait(epoll_.get(), events.data(), kMostEvents, timeout);
    for (int i = 0; i < count; ++i) {
      const uint64_t ticket = events[static_cast<size_t>(i)].data.u64;
      if (ticket == kBell) return;
      visit(ticket);
    }
  }
}

}  // namespace tutti::comm
