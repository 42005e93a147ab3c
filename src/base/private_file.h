// Whether a file that holds a secret is closed to everybody else.
//
// Errors: kInvalidArgument continues a sentence that begins with the file's name. Threads: no
// state.
#pragma once

#include "src/base/status.h"

namespace tutti {

/// A regular file of this user (or of root) that nobody else may open.
Status check_private(int fd);

/// The same for a directory; root's is not enough, since this user must write there.
Status check_private_directory(int fd);

}  // namespace tutti
