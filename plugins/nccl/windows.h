// Windows of NCCL (ncclCommWindowRegister), which are collective: for several ranks of one thread,
// too, since all that they do together are groups of tutti.h.
#pragma once

#include <cstddef>
#include <vector>

#include "plugins/nccl/abi.h"

namespace tutti::nccl {

struct WindowCall {
  ncclComm_t comm;
  void* memory;
  size_t bytes;
  ncclWindow_t* window;
  int flags;
};

/// Whatever is wrong with this rank's arguments, it takes part: the others would wait for it.
/// tutti.h judges, and tells all of them. Those that can be made are, whatever fails; the first
/// failure.
ncclResult_t add_windows(const std::vector<WindowCall>& calls);

/// Whether other ranks can map the range: it lies in one piece of memory from ncclMemAlloc.
bool can_be_shared(const void* memory, size_t bytes);

/// Ends the communicator's part of it. A refusal leaves the window, and what it has left, as it
/// was.
ncclResult_t end_window(ncclComm_t comm, ncclWindow_vidmem& window);

}  // namespace tutti::nccl
