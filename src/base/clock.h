// The system's monotonic clock, and the units that are reckoned with it.
//
// Units: nanoseconds since an arbitrary origin. Threads: now_ns() from anywhere.
#pragma once

#include <cstdint>
#include <ctime>

namespace tutti {

inline constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;
inline constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;
inline constexpr uint64_t kNoDeadline = ~uint64_t{0};

/// CLOCK_MONOTONIC.
inline uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
         static_cast<uint64_t>(now.tv_nsec);
}

/// When something ends that may take this long from now on; a timeout may be kNoDeadline: then this
/// does not look at the clock, which a small call would feel.
inline uint64_t deadline_after(uint64_t timeout_ns) {
  if (timeout_ns == kNoDeadline) return kNoDeadline;
  const uint64_t now_ns = monotonic_ns();
  return timeout_ns > kNoDeadline - now_ns ? kNoDeadline : now_ns + timeout_ns;
}

}  // namespace tutti
