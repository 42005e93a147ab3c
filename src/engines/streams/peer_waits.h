// Which rank of a host waits for which, as the watchdogs of the ranks told it last: so that a rank
// that has waited for too long names the one that holds all of them up, not the next one.
//
// Owns: nothing. Threads: any. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/exec/arena_map.h"

namespace tutti::engines::streams {

/// The wait of a rank, as its watchdog knows it.
struct PeerWait {
  uint32_t number = 0;           // of the first call that its streams are not past; it wraps
  std::optional<int> peer = {};  // that it waits for in this call
  uint64_t looked_ns = 0;        // when its watchdog looked last, on the clock of the host

  /// Written by its own rank only.
  void tell(exec::DevicePage& page) const;
  /// Of so many ranks.
  static PeerWait read(const exec::DevicePage& page, size_t ranks);
};

/// The rank at the end of the chain of waits that begins with `from`, which is in `waits` like all
/// ranks. A wait for a rank that is past the call is an old word and ends the chain. Of ranks that
/// wait for each other, the answer is one whose watchdog has stopped looking, since a process that
/// was stopped tells for ever what it waited for; if all look, it is `from`.
int follow_waits(int from, std::span<const PeerWait> waits);

}  // namespace tutti::engines::streams
