// Files that people write: read whole, with messages as compilers write them.
//
// Threads: no state. Errors: kSystemError for what cannot be read, or is longer than 64 MiB.
#pragma once

#include <string>

#include "src/base/status.h"

namespace tutti::topology {

Result<std::string> read_text_file(const std::string& path);

/// A regular file is kept whole or not at all, readers see that of before until all of it is
/// written, and it keeps its mode and owner. Anything else (a device, a pipe, a link) is written
/// into, as by a shell's '>'; a reader of a pipe that takes nothing for 10 s is an error.
Status write_text_file(const std::string& path, const std::string& text);

/// "line 3: why" as "FILE:3: why"; without a line as "FILE: why".
Status in_file(const Status& status, const std::string& file);

}  // namespace tutti::topology
