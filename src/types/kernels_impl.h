// The parts that fold_kernel() chooses from. Each is compiled once per instruction set, and is null
// for a type that is not its own.
#pragma once

#include "src/types/kernels.h"

namespace tutti::types {

// Below this many bytes a fence costs more than cached stores do.
inline constexpr size_t kLeastStreamed = 4096;
// Below this many bytes memcpy() copies by vectors, too.
inline constexpr size_t kLeastVectors = 2048;

FoldKernel int_kernel(const FoldKey& key);
FoldKernel float_kernel(const FoldKey& key);
FoldKernel packed_kernel(const FoldKey& key);  // the 16-bit and 8-bit floats

}  // namespace tutti::types
