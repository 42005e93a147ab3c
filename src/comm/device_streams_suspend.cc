// The parts of DeviceStreams about streams that come to rest: before memory is given back for a
// while, and before an edit.
#include <chrono>
#include <string>
#include <thread>

#include "src/base/clock.h"
#include "src/comm/device_streams.h"

namespace tutti::comm {

namespace {

constexpr auto kNap = std::chrono::microseconds(50);

}  // namespace

Result<bool> DeviceStreams::are_streams_past() {
  const bool is_busy = has_ring() && calls_->rank().look();
  const Result<bool> over = order_ == nullptr ? Result<bool>(true) : order_->is_over();
  return over.ok() && is_busy ? Result<bool>(false) : over;
}

// Calls of the host that stand between two points of a stream hold that stream, too.
Status DeviceStreams::await_over(const WaitLimit& wait_limit) {
  const std::string late = "calls, or runs of graphs, of " + name_of(membership_.rank()) +
                           " are still under way on its streams: edit a communicator when its "
                           "ranks have launched the same graphs, or revoke it before";
  wait_limit.waits_for(late);
  for (;;) {
    const Result<bool> past = are_streams_past();
    if (!past.ok()) return past.status();
    if (past.value()) return {};
    wait_limit.tell_if_due();
    if (wait_limit.over()) return wait_limit.reason(late);
    std::this_thread::sleep_for(kNap);
  }
}

Status DeviceStreams::wait_until_over(uint64_t patience_ns) {
  const uint64_t until_ns = deadline_after(patience_ns);
  for (;;) {
    if (Status failed = failure_.check(); !failed.ok()) return failed;
    const Result<bool> past = are_streams_past();
    if (!past.ok()) return past.status();
    if (past.value()) return {};
    if (monotonic_ns() >= until_ns) {
      return Status(Code::kTimeout, "calls of " + name_of(membership_.rank()) +
                                        " are still under way on its streams: suspend a "
                                        "communicator when all ranks' calls are over");
    }
    std::this_thread::sleep_for(kNap);
  }
}

// The ranks of one host have one status. Those of another host may have another, and go back then.
Status DeviceStreams::agree_or_undo(const Status& mine, Code of_others,
                                    const std::function<Status()>& undo) {
  Status agreed = agree(*rounds_, mine, of_others);
  if (agreed.ok() || !is_networked()) return agreed;
  if (Status undone = agree(*rounds_, mine.ok() ? undo() : Status()); !undone.ok()) {
    failure_.abort(undone);  // some ranks have memory, and others have none
    return undone;
  }
  return agreed;
}

Status DeviceStreams::suspend(uint64_t patience_ns) {
  Status status;
  if (has_ring()) {
    exec::DeviceRank& rank = calls_->rank();
    status = agree_or_undo(rank.suspend(wait_until_over(patience_ns), patience_ns), Code::kTimeout,
                           [&] { return rank.resume(patience_ns); });
  }
  if (status.ok() && options_.place.context != nullptr) {
    announced_.clear();
    device().trim(options_.place);
  }
  return status;
}

Status DeviceStreams::resume(uint64_t patience_ns) {
  if (!has_ring()) return {};
  exec::DeviceRank& rank = calls_->rank();
  return agree_or_undo(rank.resume(patience_ns), Code::kSystemError,
                       [&] { return rank.suspend({}, patience_ns); });
}

uint64_t DeviceStreams::device_bytes() const {
  return has_ring() ? calls_->rank().device_bytes() : 0;
}

}  // namespace tutti::comm
