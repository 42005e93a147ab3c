// The words of the two ends of a link over the socket on which both have proved themselves: about
// their ports and queue pairs before these are connected, and about pairs that fail afterwards.
//
//   ports  bytes 0..3 "TUV2"  4 ports  5..7 zero  8..11 slots  12..15 bytes of one
//         16..19 pairs  20..23 segment  24..27 depth  28..31 zero, and then for each port
//          0..15 gid  16..17 lid  18 mtu  19..23 zero
//   pairs  bytes 0..3 count  4..7 zero, and then so many {number, sequence}
//   a failed pair  bytes 0 'F'  1 its number  2 its LaneFault  3..7 zero  8..15 how much it has
//   taken
//
// All numbers little-endian. Errors: kRemoteError says what is wrong with the peer's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "transports/verbs/flow_shape.h"
#include "transports/verbs/lane.h"
#include "transports/verbs/queue_pair.h"

namespace tutti::transports::verbs {

struct PortsHello {
  std::vector<PortEnd> ports;
  uint32_t slots = 0;  // receives of frames
  uint32_t slot_bytes = 0;
  FlowShape wish;
};

Status send_hello(int socket, const PortsHello& hello, const WaitLimit& wait_limit);
Result<PortsHello> receive_hello(int socket, const WaitLimit& wait_limit);

inline constexpr size_t kMostLanes = 64;
Status send_pairs(int socket, const std::vector<QueuePairEnd>& pairs, const WaitLimit& wait_limit);
/// As many as this rank has.
Result<std::vector<QueuePairEnd>> receive_pairs(int socket, size_t count,
                                                const WaitLimit& wait_limit);

/// Both ends say, and wait for, that they take what the other one sends.
Status exchange_ready(int socket, const WaitLimit& wait_limit);

/// The peer has closed its end of this lane.
struct ClosedLane {
  size_t lane = 0;
  uint64_t taken = 0;
  LaneFault fault = LaneFault::kError;
};

/// Says and hears of closed lanes, without waiting: words that find no room are said later.
class LaneWords {
 public:
  void say(const ClosedLane& closed);
  /// Writes what is left to say.
  void flush(int socket);
  /// The next one that has come; nothing: none, or the socket has ended, which others look at.
  Result<std::optional<ClosedLane>> hear(int socket, size_t lanes);

 private:
  static constexpr size_t kBytes = 16;

  std::vector<uint8_t> out_;
  std::array<uint8_t, kBytes> in_{};
  size_t have_ = 0;
};

}  // namespace tutti::transports::verbs
