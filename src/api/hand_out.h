// Where a program finds the communicator it asked for. One of its threads, a watchdog, may look
// there while the call goes on: each change is one step.
//
// Threads: any. Errors: none.
#pragma once

#include <atomic>

#include "include/tutti/tutti.h"

namespace tutti::api {

inline void hand_out(tuttiComm_t* out, tuttiComm_t handle) {
  std::atomic_ref(*out).store(handle, std::memory_order_release);
}

}  // namespace tutti::api
