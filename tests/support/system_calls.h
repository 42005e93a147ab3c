// How many system calls a thread makes.
//
// Each is trapped (seccomp), counted and then made. Not counted are those a thread waits with
// (sched_yield, nanosleep), those that start threads and processes, and clock_gettime where the
// kernel has no page for it. Linux on x86-64. Threads: each counts its own; those that a watched
// thread starts are watched, too.
#pragma once

#include <cstdint>

namespace tutti::testing_support {

/// From now on, for as long as the thread lives. False if this machine cannot.
bool watch_system_calls();

/// Of this thread, since it watches.
uint64_t system_calls();

/// The number of the last one that was counted; -1: none.
int last_system_call();

}  // namespace tutti::testing_support
