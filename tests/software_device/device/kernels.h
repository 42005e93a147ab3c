// The kernels that images have on the software device from the start: those of Tutti.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/software_device/hooks.h"

namespace softdev {

struct KnownKernel {
  std::string name;
  SoftdevKernel function = nullptr;
  size_t parameter_bytes = 0;  // of its one parameter
};

std::vector<KnownKernel> known_kernels();

}  // namespace softdev
