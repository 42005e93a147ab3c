#include "src/base/wait_limit.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tutti {

Result<std::shared_ptr<Cancellation>> Cancellation::create() {
  Fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return errno_status("eventfd");
  return std::shared_ptr<Cancellation>(new Cancellation(std::move(bell)));
}

void Cancellation::cancel() {
  cancelled_.store(true, std::memory_order_release);
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
}

WaitLimit::WaitLimit(uint64_t deadline_ns, std::shared_ptr<Cancellation> cancellation,
                     uint64_t slow_ns, Tell tell)
    : deadline_ns_(deadline_ns),
      cancellation_(std::move(cancellation)),
      slowness_(std::make_shared<Slowness>(
          Slowness{monotonic_ns(), deadline_after(slow_ns), slow_ns, std::move(tell), {}})) {}

Status WaitLimit::reason(std::string late) const {
  if (cancelled()) return Status::remote_error("this rank's communicator was aborted meanwhile");
  if (has_lost_purpose()) return purpose_->status;
  return Status::timeout(std::move(late));
}

WaitLimit WaitLimit::as_long_as(Sense sense) const {
  WaitLimit asking = *this;
  asking.purpose_ = std::make_shared<WaitPurpose>(WaitPurpose{std::move(sense), 0, {}});
  return asking;
}

void WaitLimit::ask_if_due() const {
  constexpr uint64_t kPauseNs = 100 * kNanosecondsPerMillisecond;
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < asks_at_ns() || has_lost_purpose()) return;
  purpose_->status = purpose_->sense();
  purpose_->next_ns = has_lost_purpose() ? 0 : now_ns + kPauseNs;
}

void WaitLimit::waits_for(std::string what) const {
  if (slowness_ != nullptr) slowness_->what = std::move(what);
}

void WaitLimit::tell_if_due() const {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < tells_at_ns()) return;
  slowness_->tell(slowness_->what, now_ns - slowness_->begun_ns);
  // After 1, 2, 4... times as long as the first time.
  const uint64_t waited_ns = std::max(now_ns - slowness_->begun_ns, uint64_t{1});
  slowness_->next_ns = deadline_after(waited_ns);
}

void WaitLimit::pause(uint64_t duration_ns) const { (void)wait_ready(-1, 0, at_most(duration_ns)); }

}  // namespace tutti
