// The words that the two ends of a link tell each other over the socket on which both have proved
// themselves, before their queue pairs are connected.
//
//   bytes  0..3 "TUV1"   4 mtu   5 zero   6..7 lid   8..23 gid   24..27 slots   28..31 bytes of one
//         32..39 control pair {number, sequence}   40..43 count of data pairs   44..47 zero, and
//         then so many {number, sequence}
//
// All numbers little-endian. Errors: kRemoteError says what is wrong with the peer's.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/patience.h"
#include "src/base/status.h"
#include "transports/verbs/queue_pair.h"

namespace tutti::transports::verbs {

struct PortHello {
  static constexpr size_t kMostDataPairs = 16;

  PortEnd port;
  uint32_t slots = 0;  // receives of frames
  uint32_t slot_bytes = 0;
  QueuePairEnd control;
  std::vector<QueuePairEnd> data;
};

Status send_hello(int socket, const PortHello& hello, const Patience& patience);
Result<PortHello> receive_hello(int socket, const Patience& patience);
/// Both ends say, and wait for, that they take what the other one sends.
Status exchange_ready(int socket, const Patience& patience);

}  // namespace tutti::transports::verbs
