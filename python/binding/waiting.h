// Calls that wait, made so that Python goes on around them: other threads run, and Ctrl-C is heard.
//
// The thread that calls makes the call itself, since a handover to another one would cost more than
// most calls. Python runs the handlers of signals in its main thread only, which is in the call
// then. So a thread of this module learns of SIGINT; if the main thread stays in its call and
// Python's handler is the one that raises KeyboardInterrupt, this thread gives the call up, and the
// exception leaves in the main thread. Handlers of other kinds run when the call has returned.
//
// Threads: `work` must not touch Python: it runs without the interpreter's lock.
#pragma once

#include <functional>

namespace tutti::python {

/// Runs `work` and throws what it throws. `give_up` must make `work` return; it is called from
/// another thread, with the interpreter's lock, where Ctrl-C ends the wait.
void run_waiting(const std::function<void()>& work, const std::function<void()>& give_up);
/// Whether this thread hears signals, which only the interpreter's main thread does.
bool hears_signals();

}  // namespace tutti::python
