// Where exceptions end. The library reports by Status and throws nothing itself; the standard
// library throws where memory is out, and callers in C, threads and destructors must not see that.
//
// Errors: std::bad_alloc is kSystemError, anything else kInternalError. Threads: any.
#pragma once

#include <exception>

#include "src/base/status.h"

namespace tutti {

/// What the exception means. Needs no memory to say that there is none.
Status status_of(const std::exception& error);

/// What `work` returns, or the Status of what it throws. The end of a cancelled thread, which is no
/// std::exception, passes through.
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
