// libucp, found when the process first needs it.
//
// Loading UCX changes the process: it handles signals of errors, and once it is used it replaces
// mmap, munmap and madvise of the C library. The handlers are put back here. The rest can be
// prevented by environment variables alone, which UCX reads when it is loaded: they are set here
// where no other thread runs that might read them, and are the program's matter elsewhere
// (docs/rdma.md).
//
// Owns:    the library stays loaded for as long as the process lives.
// Threads: any. Errors: kUnsupported says what is missing.
#pragma once

#include "src/base/status.h"
#include "transports/ucx/functions.h"

namespace tutti::transports::ucx {

/// The library of the system, loaded by the first call.
Result<const api::UcxFunctions*> load_library();

/// Another file in its place: for tests.
Result<api::UcxFunctions> load_library_from(const char* file);

/// Whether Tutti can use a library that says this version of itself.
Status check_version(const api::UcxFunctions& functions);

}  // namespace tutti::transports::ucx
