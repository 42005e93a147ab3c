// Why a communicator has failed: kept in one place, whoever finds it out.
//
// The call that runs may find it (exec::CallState::fail): it tells the peers at once, and this
// object when it ends (CallFrame). The watch of peers, the watchdog of devices, the end of a window
// and the user's abort, from any thread, find it too: this object then tells the call that runs,
// which looks now and then, and every call that begins later.
//
// The first failure stays. While a rank leaves, some things end its last call and are no failure
// (begin_leaving()).
//
// Threads: any, but for what says otherwise. Lifetime: within the membership's and the log's.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/comm/membership.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/peer_watch.h"
#include "src/exec/call_state.h"

namespace tutti::comm {

class Failure final : public diagnosis::Health {
 public:
  Failure(const Membership& membership, Logger& log);

  /// From now on check() asks it, too; null: no more. No other thread uses this object.
  void look_with(diagnosis::PeerWatch* watch) { watch_ = watch; }

  /// Why the communicator is failed; OK if it is not.
  Status check() override;
  /// Whether it is known already, which costs a load.
  bool is_known() const { return failed_.load(std::memory_order_relaxed); }
  /// The same of any of the ranks: on this host at once, elsewhere when the watch has heard of it.
  Status of_any_rank(const std::vector<exec::Peer>& peers);
  /// The rank that the failure is about; not known if it is about none.
  diagnosis::Cause cause() const override;
  /// The same, or this rank.
  diagnosis::Cause cause_or_self() const;

  void fail(Status reason, const diagnosis::Cause& cause);
  void abort(Status reason) { fail(std::move(reason), {}); }
  /// Because the user says so: because of nobody else, whomever a call waits for. Needs no memory.
  void abort() { fail(aborted_, {membership_.rank(), -1}); }

  /// From now on check() aborts once `ordered` is true, which outlives this; null: no more. By the
  /// thread that drives the communicator.
  void heed_abort(const std::atomic<bool>* ordered) { abort_ordered_ = ordered; }
  bool is_abort_ordered() const {
    return abort_ordered_ != nullptr && abort_ordered_->load(std::memory_order_acquire);
  }
  /// From now on check() ends this rank's last call when `wanted` says that the process has
  /// something more urgent to do. By the thread that drives the communicator.
  void begin_leaving(std::function<bool()> wanted) { wanted_elsewhere_ = std::move(wanted); }
  bool has_begun_leaving() const { return wanted_elsewhere_ != nullptr; }

  std::string name_of(int rank) const override { return membership_.name_of(rank); }
  /// To the log.
  void report(const std::string& text) override;

 private:
  std::string describe(const diagnosis::Loss& loss) const;
  Status check_leaving() const;

  const Membership& membership_;
  Logger& log_;
  const Status aborted_;  // what abort() says
  diagnosis::PeerWatch* watch_ = nullptr;
  const std::atomic<bool>* abort_ordered_ = nullptr;
  std::function<bool()> wanted_elsewhere_;  // while the rank leaves
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  Status reason_;           // under mutex_
  diagnosis::Cause cause_;  // of it; under mutex_
};

}  // namespace tutti::comm
