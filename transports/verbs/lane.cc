#include "transports/verbs/lane.h"

#include <utility>

#include "src/base/clock.h"

namespace tutti::transports::verbs {
namespace {

// A card that is dead may give nothing back.
constexpr uint64_t kDrainNs = kNanosecondsPerSecond;
// A peer that computes calls nothing for a while.
constexpr uint64_t kAnswerNs = 60 * kNanosecondsPerSecond;

}  // namespace

PairLane::PairLane(size_t number, const LanePath& path, std::shared_ptr<Domain> domain,
                   std::unique_ptr<QueuePair> pair)
    : tag_(uint64_t{number + 1} << kLaneShift),
      path_(path),
      domain_(std::move(domain)),
      adapter_(&domain_->adapter()),
      pair_(std::move(pair)),
      end_(pair_->end()) {}

Result<PairLane> PairLane::create(size_t number, const LanePath& path, const Rail& rail,
                                  const QueuePair::PairRoom& room) {
  auto pair = QueuePair::create(rail.domain, *rail.completions, room);
  if (!pair.ok()) return pair.status();
  return PairLane(number, path, rail.domain, std::move(pair).value());
}

void PairLane::send(api::ibv_send_wr& work, LaneWork what) {
  if (!is_up()) return;
  work.wr_id = tag_ | what.name;
  work.send_flags |= api::kSendSignaled;
  journal_.push_back(what);
  if (const Status status = pair_->send(work); !status.ok()) fail(status);
}

void PairLane::receive(api::ibv_recv_wr& work, uint32_t name) {
  if (!is_up()) return;
  work.wr_id = tag_ | kReceive | name;
  const Status status = pair_->receive(work);
  if (!status.ok()) return fail(status);
  ++receives_;
}

std::optional<LaneWork> PairLane::finish() {
  if (journal_.empty()) return std::nullopt;
  const LaneWork done = journal_.front();
  journal_.pop_front();
  if (done.is_counted) ++arrived_;
  return done;
}

void PairLane::came_back(bool has_taken) {
  if (receives_ > 0) --receives_;
  if (has_taken) ++taken_;
}

void PairLane::fail(const Status& why, LaneFault fault) {
  if (!is_up()) return;
  fault_ = fault;
  state_ = LaneState::kFailed;
  why_ = why;
  failed_ns_ = monotonic_ns();
  pair_->stop();
}

bool PairLane::may_close(uint64_t now_ns) const {
  if (state_ != LaneState::kFailed) return false;
  return receives_ == 0 || adapter_->is_dead() || now_ns - failed_ns_ > kDrainNs;
}

void PairLane::close(uint64_t now_ns) {
  closed_ns_ = now_ns;
  if (is_up()) why_ = Status::remote_error("the link has ended");
  state_ = LaneState::kClosed;
  pair_.reset();
}

bool PairLane::is_overdue(uint64_t now_ns) const {
  return is_closed() && !settled_ && now_ns - closed_ns_ > kAnswerNs;
}

Result<LaneRest> PairLane::settle(uint64_t peer_taken) {
  settled_ = true;
  if (peer_taken < arrived_) {
    return Status::remote_error("its card has lost what it had acknowledged");
  }
  uint64_t more = peer_taken - arrived_;
  size_t behind_last = 0;  // of those that have arrived
  for (size_t i = 0; i < journal_.size() && more > 0; ++i) {
    if (!journal_[i].is_counted) continue;
    --more;
    behind_last = i + 1;
  }
  if (more > 0) return Status::remote_error("it counts what was never sent to it");
  LaneRest rest;
  for (size_t i = 0; i < journal_.size(); ++i) {
    const LaneWork& work = journal_[i];
    const bool has_arrived = i < behind_last && (work.is_counted || work.is_write);
    (has_arrived ? rest.arrived : rest.lost).push_back(work);
  }
  journal_.clear();
  return rest;
}

}  // namespace tutti::transports::verbs
