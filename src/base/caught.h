// Where exceptions end. The library reports by Status and throws nothing itself; the standard
// library throws where memory is out, and callers in C, threads and destructors must not see that.
//
// Code below the C border lets std::bad_alloc pass. The border (src/api/caught.h) makes it an error
// of the call, and the communicator of that call fails (Communicator::end_after). Where no call of
// the user's is above, the outermost loop of a thread of the library catches. The few other places
// are a table, tools/tidy_checks/catches.py, each with its reason.
//
// Errors:  std::bad_alloc is kSystemError, anything else kInternalError.
// Threads: any.
#pragma once

#include <exception>

#include "src/base/status.h"

namespace tutti {

/// The Status that an exception stands for. A Status for lack of memory is made without memory.
Status status_of(const std::exception& error);

/// The Status that `work` returns, or that of the exception it throws. The end of a cancelled
/// thread, which is no std::exception, passes through.
template <class Work>
Status caught_status(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return status_of(error);
  }
}

/// For what is only for people, or will be tried again.
template <class Work>
void attempt(const Work& work) {
  try {
    work();
  } catch (const std::exception&) {
  }
}

}  // namespace tutti
