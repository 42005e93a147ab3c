#include "src/comm/progress_thread.h"

#include <algorithm>
#include <utility>

namespace tutti::comm {
namespace {

using bootstrap::Watch;

// The longest that a put waits for a rank which has left its call and computes, and how often the
// thread wakes up beside calls that go on.
constexpr uint64_t kShortestRestNs = 1'000'000;
constexpr uint64_t kLongestRestNs = 4'000'000;

}  // namespace

Status ProgressThread::attend(transport::Link& link, Report report) {
  uint64_t ticket = 0;
  Watch* watch = nullptr;
  {
    const MutexLock lock(mutex_);
    if (watch_ == nullptr) {
      Result<std::unique_ptr<Watch>> made = Watch::create("tutti-onesided");
      if (!made.ok()) return made.status();
      watch_ = std::move(made).value();
    }
    watch = watch_.get();
    ticket = next_ticket_++;
    charges_[ticket] = Charge{&link, std::move(report)};
  }
  // Not under mutex_: the link calls back under a lock of its own.
  transport::OneSided& access = *link.one_sided();
  access.on_answers([watch, &access] { watch->hear_output(access.descriptor()); });
  Status joined;
  if (link.state() != transport::Link::State::kIdle &&
      link.state() != transport::Link::State::kWanted) {
    joined = join(ticket);
  } else {
    link.on_settled([this, ticket] { settled(ticket); });
  }
  if (!joined.ok()) leave(link);
  return joined;
}

void ProgressThread::settled(uint64_t ticket) {
  const Status joined = join(ticket);
  if (joined.ok()) return;
  const MutexLock lock(mutex_);
  const auto found = charges_.find(ticket);
  if (found != charges_.end() && found->second.report) found->second.report(joined);
}

// The link has its descriptor.
Status ProgressThread::join(uint64_t ticket) {
  const MutexLock lock(mutex_);
  const auto found = charges_.find(ticket);
  if (found == charges_.end()) return {};
  Charge& charge = found->second;
  const transport::OneSided& access = *charge.link->one_sided();
  const int fd = access.descriptor();
  if (fd < 0) return {};
  charge.fd = fd;
  charge.moves = access.moves();
  const bool is_moved = std::any_of(charges_.begin(), charges_.end(), [&](const auto& entry) {
    return entry.second.moves_connection && entry.second.fd == fd;
  });
  Status status = is_moved ? Status() : watch(charge);
  if (!status.ok()) charge.fd = -1;
  if (access.has_output()) watch_->hear_output(charge.fd);
  return status;
}

// Under mutex_.
Status ProgressThread::watch(Charge& charge) {
  Status status =
      watch_->attend(charge.fd, Watch::News::kInput, [this, &charge] { return visit(charge); });
  charge.moves_connection = status.ok();
  return status;
}

// Nobody moves the connection any more: another link that shares it does, if there is one.
void ProgressThread::hand_over(int fd) {
  const MutexLock lock(mutex_);
  for (auto& [ticket, charge] : charges_) {
    if (charge.fd != fd || !charge.link->status().ok()) continue;
    const Status status = watch(charge);
    if (!status.ok() && charge.report) charge.report(status);
    return;
  }
}

void ProgressThread::leave(transport::Link& link) {
  link.one_sided()->on_answers({});
  std::map<uint64_t, Charge>::node_type charge;  // lives until no visit uses it
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(charges_.begin(), charges_.end(),
                                    [&](const auto& entry) { return entry.second.link == &link; });
    if (found == charges_.end()) return;
    charge = charges_.extract(found);
  }
  const Charge& ended = charge.mapped();
  if (!ended.moves_connection) return;
  watch_->remove(ended.fd);
  hand_over(ended.fd);
}

// On the watch's thread.
uint64_t ProgressThread::visit(Charge& charge) {
  transport::Stream& stream = *charge.link->stream();
  transport::OneSided& access = *charge.link->one_sided();
  // Where nothing moves though there was something, a call is at it.
  const bool moved = access.moves() == charge.moves && stream.progress();
  if (!charge.link->status().ok()) {
    {
      const MutexLock lock(mutex_);
      charge.moves_connection = false;
    }
    watch_->remove(charge.fd);
    hand_over(charge.fd);
    return Watch::kForEver;
  }
  if (!moved) {
    // The thread that held the link may not write on.
    if (access.has_output()) watch_->hear_output(charge.fd);
    charge.moves = access.moves();
    charge.rest_ns = std::clamp(charge.rest_ns * 2, kShortestRestNs, kLongestRestNs);
    return charge.rest_ns;
  }
  ++charge.moves;  // what others moved meanwhile shows at the next visit
  charge.rest_ns = 0;
  if (access.has_output()) watch_->hear_output(charge.fd);
  return 0;
}

}  // namespace tutti::comm
