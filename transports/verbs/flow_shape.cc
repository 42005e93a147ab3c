#include "transports/verbs/flow_shape.h"

#include <algorithm>
#include <bit>

#include "src/base/setting_values.h"

namespace tutti::transports::verbs {
namespace {

constexpr double kUnknownBytesPerNs = 12.5;  // 100 Gbit/s
constexpr uint64_t kLeastOutstanding = 4 << 20, kMostOutstanding = 256 << 20;
// With fewer, one that is slow is felt, and all packets take one way through the network.
constexpr uint64_t kLeastPairs = 2, kMostPairs = 16, kBytesOfAPair = 4 << 20;
constexpr uint64_t kLeastSegment = 64 << 10, kMostSegment = 1 << 20, kUsualDepth = 32;

uint64_t outstanding_for(const transport::PathRates& path, uint64_t measured_ns, double port_rate) {
  const double round_trip_ns =
      path.latency_ns > 0 ? 2 * path.latency_ns : static_cast<double>(measured_ns);
  double rate = path.bytes_per_ns > 0 ? path.bytes_per_ns : kUnknownBytesPerNs;
  if (port_rate > 0) rate = path.bytes_per_ns > 0 ? std::min(rate, port_rate) : port_rate;
  const double most = static_cast<double>(kMostOutstanding);
  const auto bytes = static_cast<uint64_t>(std::min(2 * rate * round_trip_ns, most));
  return std::max(bytes, kLeastOutstanding);
}

}  // namespace

FlowShape shape_for(const transport::PathRates& path, uint64_t measured_ns,
                    double port_bytes_per_ns, const RdmaSettings& settings) {
  const uint64_t outstanding = settings.outstanding_bytes > 0
                                   ? settings.outstanding_bytes
                                   : outstanding_for(path, measured_ns, port_bytes_per_ns);
  const uint64_t pairs =
      settings.queue_pairs > 0
          ? settings.queue_pairs
          : std::clamp(std::bit_ceil(outstanding / kBytesOfAPair), kLeastPairs, kMostPairs);
  const uint64_t segment = settings.segment_bytes > 0
                               ? settings.segment_bytes
                               : std::clamp(std::bit_ceil(outstanding / (pairs * kUsualDepth)),
                                            kLeastSegment, kMostSegment);
  const uint64_t of_a_pair = pairs * segment;
  const uint64_t depth = (outstanding + of_a_pair - 1) / of_a_pair;
  // A receiver grants what it has posted again by halves.
  constexpr uint64_t kLeastDepth = 2;
  return {static_cast<uint32_t>(pairs), static_cast<uint32_t>(segment),
          static_cast<uint32_t>(std::clamp<uint64_t>(depth, kLeastDepth, kMostDepth))};
}

FlowShape larger_of(const FlowShape& one, const FlowShape& other) {
  return {std::max(one.pairs, other.pairs), std::max(one.segment_bytes, other.segment_bytes),
          std::max(one.depth, other.depth)};
}

std::string describe(const FlowShape& shape) {
  return std::to_string(shape.pairs) + " queue pairs, segments of " +
         show_bytes(shape.segment_bytes) + "B, " + show_bytes(shape.outstanding()) + "B on the way";
}

}  // namespace tutti::transports::verbs
