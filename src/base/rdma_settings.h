// The settings of RDMA cards: part of Config, and handed on to the transports.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

struct RdmaSettings {
  bool allowed = true;
  /// Names of cards, "mlx5_0" or with a port "mlx5_0:1", by comma: each the beginning of names, or
  /// with "=" before the list whole names, with "^" those that are not taken. Empty: all.
  std::string devices;
  int gid_index = -1;     // -1: the best one that the port has
  std::string fabric;     // only ranks that say the same reach each other by RDMA
  uint32_t timeout = 17;  // an answer is due after 4.096 us * 2^timeout
  uint32_t retries = 6;   // then this often again
  uint32_t traffic_class = 0;
  // Of large messages; 0: as round trip and rate ask for.
  uint32_t queue_pairs = 0;
  uint32_t segment_bytes = 0;
  uint64_t outstanding_bytes = 0;
  uint32_t rails = 1;  // ports that carry a rank's messages together
  /// Large messages go so that networks may take any way for each packet.
  bool adaptive_routing = false;
};

inline constexpr uint32_t kMostRdmaTimeout = 31;
/// 7 means for ever on some cards.
inline constexpr uint32_t kMostRdmaRetries = 6;
inline constexpr uint32_t kMostRdmaQueuePairs = 16;
inline constexpr uint32_t kLeastRdmaSegment = 4 << 10, kMostRdmaSegment = 1 << 20;
inline constexpr uint64_t kMostRdmaOutstanding = uint64_t{1} << 30;
inline constexpr uint32_t kMostRdmaRails = 4;

}  // namespace tutti
