// The version of NCCL that this library says it is.
//
// Threads: any. Errors: none; programs ask before anything else, and whatever is wrong with the
// settings the first call that needs them says.
#pragma once

namespace tutti::nccl {

int version_code();

/// To the log, the first time; at NCCL_DEBUG=VERSION, too, as NCCL does.
void tell_version();

}  // namespace tutti::nccl
