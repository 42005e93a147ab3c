// Scalar arithmetic that the vector kernels call: average of integers, and scale factors.
//
// Threads: call from anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tutti::types {

/// Divides each integer by `divisor` (at least 1), truncating toward zero.
template <class T>
inline void divide(T* values, size_t count, int64_t divisor) {
  for (size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) < 8) {
      // Exact: a quotient of 32-bit integers that is no integer is too far from one to round to it.
      values[i] = static_cast<T>(static_cast<double>(values[i]) / static_cast<double>(divisor));
    } else {
      values[i] /= static_cast<T>(divisor);
    }
  }
}

/// The scale factor in the type a source is multiplied in. Integers take the factor's whole part
/// modulo 2^bits; what no 64-bit integer holds is zero.
template <class T>
inline T number_from(double factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(factor);
  } else {
    constexpr double kTwo63 = 9223372036854775808.0;
    const bool is_signed = factor >= -kTwo63 && factor < kTwo63;
    const bool is_unsigned = factor >= kTwo63 && factor < 2 * kTwo63;
    if (is_signed) return static_cast<T>(static_cast<int64_t>(factor));
    return is_unsigned ? static_cast<T>(static_cast<uint64_t>(factor)) : 0;
  }
}

}  // namespace tutti::types
