// The sends and receives of a communicator: one, or a group of them that progress together
// (exec/pairs.h).
//
// Threads: one at a time. Lifetime: within what it is given. Errors: each fails the communicator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/comm/call_frame.h"
#include "src/exec/pairs.h"

namespace tutti::comm {

/// The host's part of transfers on a device with ranks of other hosts: of sends and receives, or of
/// the shares of a v-collective.
struct TransferPart {
  exec::BouncedTransfers bounced;
  exec::Call call;                                    // without a deadline; of shares
  std::optional<diagnosis::DescribedCall> shares_of;  // none: sends and receives
};

class Transfers final {
 public:
  /// `calls_before`: so many count as made.
  Transfers(exec::HostExecutor& executor, CallFrame& frame, uint32_t calls_before)
      : frame_(frame), pairs_(executor), calls_(calls_before) {}

  /// One that will be run soon, while nothing is queued.
  void claim(const exec::Transfer& transfer) const { pairs_.claim(transfer); }
  /// Blocks until all are complete. `own_timeout_ns` as CallFrame::timeout_of() takes it, and so
  /// below.
  Status run(std::span<const exec::Transfer> transfers, uint64_t own_timeout_ns);
  /// `ticket`: of the recorder's queue.
  Status begin(std::span<const exec::Transfer> transfers, uint64_t own_timeout_ns, uint64_t ticket);
  /// The host's part alone, of transfers or of shares, which `label` is of.
  Status begin(const TransferPart& part, const trace::Label& label, uint64_t own_timeout_ns,
               uint64_t ticket);
  plan::Progress advance() { return pairs_.advance(); }
  Status outcome() const { return frame_.status(); }

 private:
  void name(uint64_t own_timeout_ns);

  CallFrame& frame_;
  exec::PairExecutor pairs_;
  uint32_t calls_;
};

}  // namespace tutti::comm
