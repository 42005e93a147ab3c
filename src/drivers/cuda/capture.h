// Streams that are captured into graphs: which graph, what it keeps alive, and what of it runs on
// the host.
//
// Threads: any. Contexts: the stream's is current. Errors: of the driver's.
#pragma once

#include <cstdint>
#include <memory>

#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

struct Capture {
  uint64_t id = 0;  // unique in the process; 0: the stream is not captured
  CUgraph graph = nullptr;
};

/// kInvalidUsage: its capture has failed, or it is the legacy stream and one that it waits for is
/// captured.
Result<Capture> find_capture(const Cuda& cuda, CUstream stream);

/// The graph, its copies and what is made of them to be run have `kept` until the last of them is
/// destroyed and does not run any more. Then a thread of Tutti's lets it go, which may use the
/// driver: the driver's own thread must not.
Status keep_with(const Cuda& cuda, CUgraph graph, std::shared_ptr<const void> kept);

/// The stream calls it, in its order, in a thread of the driver's, which must not use the driver.
Status call_on_host(const Cuda& cuda, CUstream stream, CUhostFn function, void* data);

}  // namespace tutti::drivers::cuda
