// The kernels as the driver loads them (fold.cu), which are part of the library.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::engines::cuda {

/// A fat binary; in a build without nvcc, PTX without a function.
std::span<const std::byte> fold_image();

}  // namespace tutti::engines::cuda
