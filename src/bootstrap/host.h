// Where a rank lives, as far as sharing memory goes.
//
// Errors: none; what cannot be read does not tell hosts apart. Threads: any.
#pragma once

#include <string>

#include "src/base/config.h"

namespace tutti::bootstrap {

/// TUTTI_HOST_ID, or host_fingerprint() of this process.
std::string host_id(const Config& config);

/// "name-0123456789abcdef": the host's name for people; behind it a hash over the kernel's boot id,
/// the name and the namespaces without which two containers cannot share memory.
std::string host_fingerprint();

}  // namespace tutti::bootstrap
