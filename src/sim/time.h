// The virtual clock's unit. Durations in nanoseconds become whole picoseconds, rounded up, so that
// sums do not depend on their order.
#pragma once

#include <cmath>
#include <cstdint>

namespace tutti::sim {

/// Picoseconds since the simulation began.
using Time = uint64_t;
inline constexpr Time kNever = ~Time{0};

/// kNever where it is not finite.
inline Time picoseconds(double nanoseconds) {
  constexpr double kMost = 9e18;
  const double time = std::ceil(nanoseconds * 1000);
  return time < kMost ? static_cast<Time>(time) : kNever;
}
inline double nanoseconds(Time time) { return static_cast<double>(time) / 1000; }
inline Time later(Time time, Time by) { return by >= kNever - time ? kNever : time + by; }

}  // namespace tutti::sim
