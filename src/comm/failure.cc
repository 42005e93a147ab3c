#include "src/comm/failure.h"

#include <optional>
#include <utility>

namespace tutti::comm {

// A connection that could not be made or broke says more than that a rank is gone, which is all
// that others tell.
std::string Failure::describe(const diagnosis::Loss& loss) const {
  const transport::Link* link =
      loss.rank == membership_.rank() ? nullptr : membership_.link(loss.rank);
  const Status own = link != nullptr ? link->status() : Status();
  std::string why = " is gone";
  if (!loss.is_gone()) {
    why = " gave up " + because_of(loss.cause);
  } else if (loss.rank == membership_.rank()) {
    why = " is taken for gone by another rank";
  } else if (!own.ok()) {
    why = ": " + std::string(own.message());
  }
  return name_of(loss.rank) + why + "; rank " + std::to_string(membership_.rank()) +
         " cannot go on with this communicator";
}

void Failure::report(const std::string& text) { log_.warning("{}", text); }

void Failure::fail(Status reason, const diagnosis::Cause& cause) {
  const MutexLock lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  reason_ = std::move(reason);
  cause_ = cause;
  failed_.store(true, std::memory_order_release);
  if (watch_ != nullptr) watch_->end();
}

diagnosis::Cause Failure::cause() const {
  const MutexLock lock(mutex_);
  return cause_;
}

diagnosis::Cause Failure::cause_or_self() const {
  const diagnosis::Cause known = cause();
  return known.known() ? known : diagnosis::Cause{membership_.rank(), -1};
}

Failure::Failure(const Membership& membership, Logger& log)
    : membership_(membership),
      log_(log),
      aborted_(Status::remote_error("rank " + std::to_string(membership.rank()) +
                                    " aborted the communicator")) {}

Status Failure::check() {
  if (is_abort_ordered()) abort();
  if (!failed_.load(std::memory_order_acquire)) {
    const auto loss = watch_ != nullptr ? watch_->judge() : std::nullopt;
    if (!loss) return check_leaving();
    fail(Status::remote_error(describe(*loss)),
         loss->is_gone() ? diagnosis::Cause{loss->rank, -1} : loss->cause);
  }
  const MutexLock lock(mutex_);
  return reason_;
}

// The ranks of two communicators may end them in different orders, and would wait in a circle.
Status Failure::check_leaving() const {
  if (!has_begun_leaving() || !wanted_elsewhere_()) return {};
  return Status::timeout("a rank waits for this one in another communicator");
}

Status Failure::of_any_rank(const std::vector<exec::Peer>& peers) {
  for (const exec::Peer& peer : peers) {
    if (!peer.arena.valid()) continue;
    const uint64_t failed = peer.arena.counter(0).failed.load(std::memory_order_acquire);
    const auto loss = diagnosis::Loss::read(failed, peers.size());
    if (loss && loss->rank != membership_.rank()) return Status::remote_error(describe(*loss));
  }
  return check();
}

}  // namespace tutti::comm
