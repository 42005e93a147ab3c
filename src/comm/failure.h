// Why a communicator has failed: kept in one place, whichever thread found it out.
//
//   found by                               told to
//   the call that runs (CallState::fail)   the peers at once; this object when the call ends
//   the watch of peers (PeerWatch)         this object, by check()
//   the watchdog of devices' streams       this object, by fail()
//   the end of a window                    this object, by fail()
//   the user, from any thread              this object, by abort()
//
//   OK --- the first failure ---> FAILED   and it stays: later failures change nothing
//
// A call that runs asks check() now and then, and every call that begins later asks first, so both
// end with this failure. While a rank leaves (begin_leaving()), some things end its last call that
// are no failure of the communicator.
//
// Threads: any, except where a method says otherwise. Lifetime: within the membership's and the
// log's.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/comm/membership.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/peer_watch.h"
#include "src/exec/call_state.h"

namespace tutti::comm {

class Failure final : public diagnosis::Health {
 public:
  Failure(const Membership& membership, Logger& log);

  /// From now on check() asks `watch` too; null: no more. While no other thread uses this object.
  void look_with(diagnosis::PeerWatch* watch) { watch_ = watch; }

  /// Why the communicator has failed; OK if it has not.
  Status check() override;
  /// Whether a failure is known already. It costs a load.
  bool is_known() const { return failed_.load(std::memory_order_relaxed); }
  /// Why this rank or one of the peers has failed: peers of this host at once, others as soon as
  /// the watch has heard of it.
  Status of_any_rank(const std::vector<exec::Peer>& peers);
  /// The rank that caused the failure; not known if no rank did.
  diagnosis::Cause cause() const override;
  /// The rank that caused the failure, or this rank if none is known.
  diagnosis::Cause cause_or_self() const;

  void fail(Status reason, const diagnosis::Cause& cause);
  void abort(Status reason) { fail(std::move(reason), {}); }
  /// The user ends the communicator: this rank is the cause, not the peer that a call waits for. It
  /// needs no memory.
  void abort() { fail(aborted_, {membership_.rank(), -1}); }

  /// From now on check() aborts once `ordered` is true; null: no more. `ordered` outlives this
  /// object. Called by the thread that drives the communicator.
  void watch_abort(const std::atomic<bool>* ordered) { abort_ordered_ = ordered; }
  bool is_abort_ordered() const {
    return abort_ordered_ != nullptr && abort_ordered_->load(std::memory_order_acquire);
  }
  /// This rank leaves. From now on check() ends its last call when `wanted` says that the process
  /// has something more urgent to do. Called by the thread that drives the communicator.
  void begin_leaving(std::function<bool()> wanted) { wanted_elsewhere_ = std::move(wanted); }
  bool has_begun_leaving() const { return wanted_elsewhere_ != nullptr; }

  std::string name_of(int rank) const override { return membership_.name_of(rank); }
  /// Writes `text` to the log.
  void report(const std::string& text) override;

 private:
  std::string describe(const diagnosis::Loss& loss) const;
  Status check_leaving() const;

  const Membership& membership_;
  Logger& log_;
  const Status aborted_;  // the status that abort() sets
  diagnosis::PeerWatch* watch_ = nullptr;
  const std::atomic<bool>* abort_ordered_ = nullptr;
  std::function<bool()> wanted_elsewhere_;  // while the rank leaves
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status reason_ TUTTI_GUARDED_BY(mutex_);
  diagnosis::Cause cause_ TUTTI_GUARDED_BY(mutex_);  // of reason_
};

}  // namespace tutti::comm
