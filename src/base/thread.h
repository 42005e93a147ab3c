// Threads of the library inside somebody else's program: named, and deaf to signals that come from
// outside, so that the program's handlers run where the program expects them. Signals that a thread
// causes itself, such as SIGSEGV in a buffer that the program protects, reach its handlers.
//
// Errors: kSystemError where std::thread would throw, with the limits of this process. A body that
// throws only ends: what others wait for it must catch itself. Threads: any.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "src/base/status.h"

namespace tutti {

/// `name` is cut to 15 characters, the limit of the kernel.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

/// For errors: where this process runs, and how many threads it may have.
std::string limits_of_threads();

}  // namespace tutti
