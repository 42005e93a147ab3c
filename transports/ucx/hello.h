// The words that the two ends of a link tell each other over the socket on which both have proved
// themselves, before they talk by UCX.
//
//   bytes  0..3 "TUX1"   4..11 token   12..15 and 16..19 bytes of two addresses of workers, which
//          follow: for messages, and for writes into memory
//
// All numbers little-endian. Every message of UCX begins with its receiver's token: UCX does not
// say who sent it. Errors: kRemoteError says what is wrong with the peer's.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/base/wait_limit.h"

namespace tutti::transports::ucx {

struct WorkerHello {
  static constexpr size_t kMostAddressBytes = 16 * 1024;

  uint64_t token = 0;
  std::string frames;  // addresses
  std::string writes;
};

Status send_hello(int socket, const WorkerHello& hello, const WaitLimit& wait_limit);
Result<WorkerHello> receive_hello(int socket, const WaitLimit& wait_limit);

}  // namespace tutti::transports::ucx
