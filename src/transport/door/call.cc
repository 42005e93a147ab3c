#include "src/transport/door/call.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "src/base/clock.h"

namespace tutti::transport::door {

OutgoingCall::OutgoingCall(KeptFd fd, const JobKey& key, const Identity& self)
    : fd_(std::move(fd)), key_(&key), self_(self) {}

Status OutgoingCall::list_in(const PollSet& set, uint64_t tag) {
  set_ = &set;
  tag_ = tag;
  return fd_.list(set, static_cast<uint32_t>(events()), tag);
}

Result<bool> OutgoingCall::connected() {
  pollfd entry{fd_.get(), POLLOUT, 0};
  if (poll(&entry, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) < 0) {
    return errno_status("getsockopt");
  }
  errno = error;
  if (error != 0) return errno_status("connect");
  introduction_.emplace(fd_.get(), *key_, self_);
  if (set_ != nullptr) {
    if (Status status = list_in(*set_, tag_); !status.ok()) return status;
  }
  return true;
}

Result<bool> OutgoingCall::step() {
  if (!introduction_) {
    const Result<bool> done = connected();
    if (!done.ok() || !done.value()) return done;
  }
  return introduction_->advance();
}

bool Attempts::again(const OutgoingCall& call, const Status& status) {
  constexpr int kMostCutOff = 3;
  if (!call.reached()) return false;
  return status.code() == Code::kSystemError || (call.cut_off() && ++cut_off_ < kMostCutOff);
}

Result<KeptFd> pass_gate(const std::function<Result<KeptFd>()>& dial, const JobKey& key,
                         const Identity& self, const WaitLimit& wait_limit) {
  Attempts attempts;
  Status last = Status::timeout("no answer in time");
  for (;;) {
    Result<KeptFd> fd = dial();
    if (!fd.ok()) return fd;
    OutgoingCall call(std::move(fd).value(), key, self);
    Result<bool> done = false;
    while ((done = call.step()).ok() && !done.value()) {
      if (!wait_ready(call.fd(), call.events(), wait_limit)) {
        return wait_limit.cancelled() ? wait_limit.reason("") : last;
      }
    }
    if (done.ok()) return call.take();
    last = done.status();
    if (!attempts.again(call, last) || wait_limit.over()) return last;
    wait_limit.pause(Attempts::kPauseNs);
  }
}

}  // namespace tutti::transport::door
