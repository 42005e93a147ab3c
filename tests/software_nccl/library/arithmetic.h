// Elements as the stand-in folds them: all in one order, each floating-point value rounded once.
//
// Threads: pure. Errors: none; what NCCL does not fold is left as it was.
#pragma once

#include <cstddef>
#include <vector>

#include "plugins/nccl/abi.h"

namespace softnccl {

size_t bytes_of(ncclDataType_t type);
void fold(ncclDataType_t type, ncclRedOp_t op, const std::vector<const char*>& sources,
          char* target, size_t count);
/// `values` are multiplied by *`factor`, which is of the type.
void multiply(ncclDataType_t type, const char* factor, char* values, size_t count);

}  // namespace softnccl
