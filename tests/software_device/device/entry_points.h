// The functions of the driver's interface that the software device has, declared by the tables that
// list them for the library and for tests: a definition with other parameters does not compile.
#pragma once

#include "tests/software_device/more_api.h"

namespace softdev {

extern "C" {
#define SOFTDEV_DECLARE(name, version, parameters) CUresult name parameters;
TUTTI_CUDA_FUNCTIONS(SOFTDEV_DECLARE)
TUTTI_CUDA_OPTIONAL_FUNCTIONS(SOFTDEV_DECLARE)
SOFTDEV_MORE_FUNCTIONS(SOFTDEV_DECLARE)
#undef SOFTDEV_DECLARE
}

}  // namespace softdev
