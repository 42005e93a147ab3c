// Lines of information in the log about the process and its communicators.
//
// Threads: any. Errors: none.
#pragma once

#include "src/api/pending_init.h"

namespace tutti::api {

/// Once: which build this is, and what was set.
void tell_start(const Config& config, Logger& log);

/// The same maker, which says what became of it. `call`, a literal, is what the program called.
Initializer told(const char* call, const CommConfig& config, Initializer make);

/// "finalized", "destroyed".
void tell(const tuttiComm& handle, const comm::Communicator& communicator, const char* event);

}  // namespace tutti::api
