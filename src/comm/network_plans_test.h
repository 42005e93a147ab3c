// Tests of plans between hosts have rings so small that small counts run in several slices.
//
// Threads: pure. Errors: none.
#pragma once

#include "src/comm/device_calls.h"
#include "src/comm/network_lanes.h"

namespace tutti::comm {

inline plan::Tuning small_network_tuning() {
  constexpr exec::RingShape kRing = {
      .region_bytes = 4096, .lane_regions = 2, .scratch_bytes = 2048};
  plan::Tuning tuning = network_tuning(device_tuning(kRing));
  tuning.stream_bytes = 1024;
  return tuning;
}

}  // namespace tutti::comm
