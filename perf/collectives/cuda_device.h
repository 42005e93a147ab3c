// A device of CUDA for the perf tools.
#pragma once

#include "perf/collectives/device.h"

namespace tutti::perf {

/// Makes it current in the calling thread. Errors: PerfError, where there is no driver or device.
std::unique_ptr<Device> open_cuda_device(int number);

}  // namespace tutti::perf
