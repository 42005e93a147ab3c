// The state that the drop-in keeps for the whole process, and its protection at forks.
//
// All of it is under one lock, which a fork waits for: the child must not find it held by a thread
// that it does not have. A call that repeats takes it every 10 ms at most (device_memory.h). The
// core does the same for its own (src/base/fork.h), and is never called with this lock held.
#pragma once

#include <cstdint>
#include <mutex>

namespace tutti::nccl {

std::mutex& process_mutex();

/// Which process this is: a fork begins a new generation, from 1.
uint32_t process_generation();

}  // namespace tutti::nccl
