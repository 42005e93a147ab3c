// The name of this host, whole: Linux allows 64 characters.
//
// Errors: "host" where the system gives none. Threads: any.
#pragma once

#include <string>

namespace tutti {

std::string host_name();

}  // namespace tutti
