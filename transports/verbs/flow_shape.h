// How much of a link's large messages is on the way at once, and in which pieces: so much that the
// way to the peer is never empty, which is its rate times its round trip, and that twice.
//
// Units: bytes, nanoseconds. Threads: pure functions. Errors: none.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/rdma_settings.h"
#include "src/transport/member.h"

namespace tutti::transports::verbs {

struct FlowShape {
  uint32_t pairs = 2;  // queue pairs that carry segments
  uint32_t segment_bytes = 64 * 1024;
  uint32_t depth = 32;  // segments on their way on a pair
  bool operator==(const FlowShape&) const = default;
  uint64_t outstanding() const { return uint64_t{pairs} * segment_bytes * depth; }
};

inline constexpr uint32_t kMostDepth = 256;

/// Of a way whose ports send so fast together (0: nobody knows). `measured_ns`: a round trip, which
/// counts where the path has no latency. Values that `settings` has stay.
FlowShape shape_for(const transport::PathRates& path, uint64_t measured_ns,
                    double port_bytes_per_ns, const RdmaSettings& settings);

/// With which both ends can do: what either wants more of.
FlowShape larger_of(const FlowShape& one, const FlowShape& other);

/// "2 queue pairs, segments of 64 KiB, 4 MiB on the way".
std::string describe(const FlowShape& shape);

}  // namespace tutti::transports::verbs
