// Rounds in which every two of a number of hosts meet once, and nobody meets two at a time.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstdint>

namespace tutti::topology {

/// n - 1 where n is even; else n, since in each of them one has no partner. 0 below 2.
constexpr uint32_t rounds_for(uint32_t n) { return n < 2 ? 0 : n - 1 + n % 2; }

/// The one that `host` of `n` meets in `round`; itself: nobody. The circle method (Kirkman, On a
/// problem in combinations, 1847): the last host stands still, the others walk around it.
constexpr uint32_t partner_of(uint32_t host, uint32_t round, uint32_t n) {
  const uint32_t circle = n - 1 + n % 2;  // with a host that is not there where n is odd
  const uint32_t still = circle;
  uint32_t partner = still;
  if (host == still) {
    // The one that would meet itself on the circle: 2 * host = round.
    partner = round % 2 == 0 ? round / 2 : (round + circle) / 2;
  } else {
    const uint32_t across = (round + circle - host) % circle;
    if (across != host) partner = across;
  }
  return partner < n ? partner : host;
}

}  // namespace tutti::topology
