// libibverbs, found when the process first needs it.
//
// Owns:    the library stays loaded for as long as the process lives.
// Threads: any. Errors: kUnsupported says what is missing.
#pragma once

#include "src/base/status.h"
#include "transports/verbs/functions.h"

namespace tutti::transports::verbs {

/// The library of the system, loaded by the first call.
Result<const api::VerbsFunctions*> load_library();

/// Another file in its place, or with functions missing: for tests.
Result<api::VerbsFunctions> load_library_from(const char* file);

}  // namespace tutti::transports::verbs
