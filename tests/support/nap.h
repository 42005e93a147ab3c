// Sleeping on a link with a stream, which the library itself never does.
//
// Threads: any. Errors: none.
#pragma once

#include <poll.h>

#include "src/transport/transport.h"

namespace tutti::testing_support {

/// Until Stream::progress() may have something to do, for at most a millisecond.
inline void nap(transport::Link& link) {
  const bool output = link.one_sided() != nullptr && link.one_sided()->has_output();
  pollfd entry{link.liveness_fd(), static_cast<short>(output ? POLLIN | POLLOUT : POLLIN), 0};
  poll(&entry, 1, 1);
}

}  // namespace tutti::testing_support
