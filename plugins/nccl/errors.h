// Results and messages at the border between NCCL's names and tutti.h.
//
// Owns:    the last message.
// Threads: any.
// Errors:  the message of a failure is kept for ncclGetLastError, and logged once, since many
//          programs never ask for it; whether the failure is one of the open group, group.h is
//          told.
#pragma once

#include <string>

#include "plugins/nccl/abi.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// Keeps the message and returns the result.
ncclResult_t fail(ncclResult_t result, const std::string& message);
ncclResult_t refuse(const char* function, const std::string& why);       // ncclInvalidArgument
ncclResult_t misuse(const char* function, const std::string& why);       // ncclInvalidUsage
ncclResult_t unsupported(const char* function, const std::string& why);  // ncclInvalidUsage

/// The result of a call of tutti.h as one of NCCL's; keeps the message of a failure.
ncclResult_t translate(tuttiResult_t result);

/// The message kept last, of any thread, as NCCL has it: the thread that asks is often a watchdog.
std::string last_message();

}  // namespace tutti::nccl
