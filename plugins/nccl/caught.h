// The border between NCCL's C functions and C++: nothing that is thrown crosses it.
//
// Errors:  std::bad_alloc is ncclSystemError, anything else ncclInternalError; the open group is
//          refused.
// Threads: any.
#pragma once

#include <exception>

#include "plugins/nccl/abi.h"

namespace tutti::nccl {

ncclResult_t fail_by(const std::exception& error);

/// Runs the body of a function of the C interface, given as `work`. It costs nothing unless `work`
/// throws.
template <class Work>
[[gnu::always_inline]] inline ncclResult_t caught(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail_by(error);
  }
}

}  // namespace tutti::nccl
