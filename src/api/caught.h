// The border between the C API and C++: nothing that is thrown crosses it.
//
// Errors: as src/base/caught.h; in an open group the group is refused, as by any bad call.
#pragma once

#include "src/api/submit.h"
#include "src/base/caught.h"

namespace tutti::api {

/// Runs an entry point, given as `work`. `comm` may be null. Costs nothing unless it throws.
template <class Work>
[[gnu::always_inline]] inline tuttiResult_t caught(tuttiComm_t comm, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return refuse(comm, status_of(error));
  }
}

}  // namespace tutti::api
