// Why ranks went on when they did: a hop is a wait that was ended by another rank's message or
// signal. From the end of the call back, hops are the critical path.
//
// Threads: one. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/sim/time.h"

namespace tutti::sim {

inline constexpr uint32_t kNoHop = ~0u;

struct PathHop {
  uint32_t before = kNoHop;  // of the actor that sent
  uint32_t from = 0;         // actors
  uint32_t to = 0;
  uint8_t level = 0;     // of the two
  bool streams = false;  // a message by stream, or by the memory of a host
  Time begun = 0;        // the sender had done its part
  Time out = 0;          // the last byte was on its way
  Time arrived = 0;
};

class Hops {
 public:
  uint32_t add(const PathHop& hop) {
    hops_.push_back(hop);
    return static_cast<uint32_t>(hops_.size() - 1);
  }
  const PathHop& operator[](uint32_t hop) const { return hops_[hop]; }
  /// From the first to `last`.
  std::vector<PathHop> path(uint32_t last) const {
    std::vector<PathHop> found;
    for (uint32_t hop = last; hop != kNoHop; hop = hops_[hop].before) found.push_back(hops_[hop]);
    return {found.rbegin(), found.rend()};
  }

 private:
  std::vector<PathHop> hops_;
};

/// Something whose time is known, and whom it is due to.
struct KnownTime {
  Time time = 0;
  uint32_t before = kNoHop;  // hop of who did it
  uint32_t by = 0;           // actor
  Time begun = 0, out = 0;
};

}  // namespace tutti::sim
