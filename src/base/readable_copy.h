// Copies from memory that a caller of the library gave, and that may be no memory.
//
// A wrong address given to a system call is an error; read by this process it ends the program. So
// the kernel copies (process_vm_readv on this process), where it is allowed to; where a sandbox
// forbids that call, the process copies by itself.
//
// Threads: any. Errors: false where some of the source cannot be read; the target then holds
// anything.
#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace tutti {

bool copy_if_readable(std::byte* target, const void* source, size_t bytes);

/// The error of a call whose source cannot be read.
Status unreadable_source();

}  // namespace tutti
