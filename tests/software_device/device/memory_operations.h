// Waits for, and writes of, single words by streams.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/software_device/device/stream.h"

namespace softdev {

struct MemoryOperation {
  CUstreamBatchMemOpType type = kWaitValue32;
  uintptr_t address = 0;
  uint64_t value = 0;
  unsigned flags = 0;
};

/// In the order given. A wait looks again and again: the word may be stored to by any stream, a
/// thread of the host, or another process.
CUresult submit_memory_operations(Context& context, CUstream handle,
                                  std::vector<MemoryOperation> operations);

}  // namespace softdev
