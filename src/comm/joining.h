// Whether a rank of this host that others wait for can still come.
//
// Threads: any. Errors: none but its answer.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "src/base/status.h"
#include "src/exec/call_state.h"
#include "src/transport/transport.h"

namespace tutti::comm {

/// Why it will not: it has failed, or its link has. OK: it may. A rank may come, and then fail in
/// its first call: whoever hears of a failure here looks once more whether it had come.
inline Status why_absent(const exec::Peer& peer, const std::function<std::string()>& name) {
  if (peer.arena.counter(0).failed.load(std::memory_order_acquire) != 0) {
    return Status::remote_error(name() + " could not join the communicator; see there");
  }
  return peer.link->status();
}

}  // namespace tutti::comm
