// CUDA's devices as the layers above see them (exec::Device).
//
// Owns: nothing until a device pointer or stream comes. Threads: any. Lifetime: the process's.
#pragma once

#include <memory>

#include "src/exec/device.h"

namespace tutti::engines::cuda {

/// The one of this process. It looks for the driver only where the program has loaded it.
exec::Device& device();

}  // namespace tutti::engines::cuda
