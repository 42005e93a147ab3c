// How a rank's ring in device memory is cut: each lane has some regions, and behind them all is
// half as much scratch memory as one region, which few algorithms need. Equal on all ranks, as the
// setting is.
//
// Threads: pure.
#pragma once

#include <cstdint>

#include "src/engines/cuda/stream_machine.h"
#include "src/exec/stream_rank.h"
#include "src/plan/cursor.h"

namespace tutti::engines::cuda {

/// The value of a lane's counter before its first slice.
inline constexpr uint64_t kFirstProgress = 1;
/// The regions of each lane's part of the ring.
inline constexpr uint32_t kLaneRegions = plan::RingCursor::kMostRegions / exec::kDeviceLanes;

/// A device may give more than `ring_bytes`, which was asked for.
constexpr exec::RingShape shape_of(uint64_t ring_bytes) {
  constexpr uint64_t kLine = 256;
  constexpr uint64_t kHalves = 2 * plan::RingCursor::kMostRegions + 1;
  const uint64_t half = ring_bytes / kHalves / kLine * kLine;
  return {.region_bytes = 2 * half, .lane_regions = kLaneRegions, .scratch_bytes = half};
}

inline DeviceAddresses with_parts(DeviceAddresses addresses, uint64_t ring_bytes) {
  const exec::RingShape shape = shape_of(ring_bytes);
  addresses.scratch_bytes = shape.scratch_bytes;
  addresses.lane_bytes = shape.lane_regions * shape.region_bytes;
  addresses.scratch = addresses.rings[addresses.rank] + exec::kDeviceLanes * addresses.lane_bytes;
  return addresses;
}

inline plan::Cursors first_cursors(uint64_t ring_bytes) {
  const plan::RingCursor ring(shape_of(ring_bytes).region_bytes, kLaneRegions);
  plan::Cursors cursors;
  for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
    cursors.lanes[lane] = {kFirstProgress, ring};
  }
  return cursors;
}

}  // namespace tutti::engines::cuda
