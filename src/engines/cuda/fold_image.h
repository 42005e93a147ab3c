// The kernels as the driver loads them (fold.cu, multicast.cu), which are part of the library.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::engines::cuda {

/// A fat binary; in a build without nvcc, PTX without a function.
std::span<const std::byte> fold_image();
/// The same of those that fold by multicast; a build with an older nvcc than that of CUDA 12.1 has
/// none, either.
std::span<const std::byte> multicast_image();

}  // namespace tutti::engines::cuda
