// How a rank's ring in device memory is cut: each lane has some regions, and behind them all is as
// much scratch memory as one region. Equal on all ranks, as the setting is.
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "src/engines/cuda/stream_machine.h"
#include "src/plan/cursor.h"

namespace tutti::engines::cuda {

/// The value of a lane's counter before its first slice.
inline constexpr uint64_t kFirstProgress = 1;
/// The regions of each lane's part of the ring.
inline constexpr uint32_t kLaneRegions = plan::RingCursor::kMostRegions / exec::kDeviceLanes;

/// Bytes of a region. A device may give more than it was asked for.
constexpr uint64_t region_of(uint64_t ring_bytes) {
  constexpr uint64_t kLine = 256;
  return ring_bytes / (plan::RingCursor::kMostRegions + 1) / kLine * kLine;
}

inline DeviceAddresses with_parts(DeviceAddresses addresses, uint64_t ring_bytes) {
  addresses.scratch_bytes = region_of(ring_bytes);
  addresses.lane_bytes = kLaneRegions * region_of(ring_bytes);
  addresses.scratch = addresses.rings[addresses.rank] + exec::kDeviceLanes * addresses.lane_bytes;
  return addresses;
}

inline plan::Cursors first_cursors(uint64_t ring_bytes) {
  plan::Cursors cursors;
  for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
    cursors.lanes[lane] = {kFirstProgress, plan::RingCursor(region_of(ring_bytes), kLaneRegions)};
  }
  return cursors;
}

}  // namespace tutti::engines::cuda
