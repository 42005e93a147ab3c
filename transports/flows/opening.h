// Opens the sockets of a link that has several: one end listens, the other one calls, and each call
// begins with a secret that went over the socket on which both have proved themselves.
//
//   Both say  bytes 0..3 "TUF1"   4 flows wished for   5 zero   6..7 port of the end that listens,
//             or zero; and that one  8..23 its secret. All numbers little-endian.
//   A call    bytes 0..15 the secret   16 number of the socket
//
// Owns:    what it returns.
// Threads: no state.
// Errors:  kRemoteError, kTimeout; a stranger's call is dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/fork.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/member.h"

namespace tutti::transports::flows {

inline constexpr uint32_t kMostFlows = 16;

/// How many sockets a way asks for, from 1 to kMostFlows: one for each 4 MiB that are on the way at
/// its rate, or at 10 Gbit/s where nobody knows of a rate. `measured_ns`: a round trip, which
/// counts where the path has no latency.
uint32_t flows_for(const transport::PathRates& path, uint64_t measured_ns);

/// Both ends call this. `proved`: the socket. `listens`: this end does, for the other one calls.
/// Of two wishes the larger one counts. The sockets have one order on both ends.
Result<std::vector<KeptFd>> open_flows(int proved, uint32_t wish, bool listens,
                                       const WaitLimit& wait_limit);

}  // namespace tutti::transports::flows
