// The copy engines of the software device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/software_device/device/stream.h"

namespace softdev {

struct Copy {
  uintptr_t target = 0;
  uintptr_t source = 0;
  size_t bytes = 0;
  CUmemcpySrcAccessOrder order = kSourceInStreamOrder;
  std::shared_ptr<std::vector<char>> staged{};  // the source as it was at the call
};

/// One copy, or a batch whose copies run in no order. Pageable sources are read at once, and so are
/// those that may be read at any time: early is allowed, so early it is. A copy to pageable memory
/// returns when it is done.
CUresult submit_copies(Stream& stream, std::vector<Copy> copies);

CUresult submit_fill(Stream& stream, uintptr_t target, unsigned char value, size_t bytes);

}  // namespace softdev
