#include "src/engines/streams/peer_waits.h"

#include <algorithm>
#include <vector>

#include "src/base/clock.h"

namespace tutti::engines::streams {

void PeerWait::tell(exec::DevicePage& page) const {
  const uint64_t named = peer ? static_cast<uint64_t>(*peer) + 1 : 0;
  page.waits.value.store(uint64_t{number} << 32 | named, std::memory_order_release);
  page.looked.value.store(looked_ns, std::memory_order_release);
}

PeerWait PeerWait::read(const exec::DevicePage& page, size_t ranks) {
  const uint64_t word = page.waits.value.load(std::memory_order_acquire);
  PeerWait wait{.number = static_cast<uint32_t>(word >> 32),
                .looked_ns = page.looked.value.load(std::memory_order_acquire)};
  const uint64_t named = word & ~uint32_t{0};
  if (named > 0 && named <= ranks) wait.peer = static_cast<int>(named - 1);
  return wait;
}

int follow_waits(int from, std::span<const PeerWait> waits) {
  const auto of = [&](int rank) -> const PeerWait& { return waits[static_cast<size_t>(rank)]; };
  std::vector<bool> seen(waits.size(), false);
  int at = from;
  for (;;) {
    seen[static_cast<size_t>(at)] = true;
    const std::optional<int> next = of(at).peer;
    if (!next || static_cast<int32_t>(of(*next).number - of(at).number) > 0) return at;
    if (seen[static_cast<size_t>(*next)]) break;
    at = *next;
  }
  // A watchdog with calls looks each millisecond, but machines are busy.
  constexpr uint64_t kStoppedNs = kNanosecondsPerSecond / 5;
  int longest = at;
  uint64_t last_ns = of(at).looked_ns;
  for (int rank = *of(at).peer; rank != at; rank = *of(rank).peer) {
    last_ns = std::max(last_ns, of(rank).looked_ns);
    if (of(rank).looked_ns < of(longest).looked_ns) longest = rank;
  }
  return last_ns - of(longest).looked_ns > kStoppedNs ? longest : from;
}

}  // namespace tutti::engines::streams
