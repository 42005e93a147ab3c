// Floats of at most 16 bits and fp32, one at a time: what vector_inl.h does with vectors, by the
// same steps, which are explained there. It also compiles for devices.
//
// Threads: functions of their arguments alone. Errors: none. The bits of results are those of the
// vector kernels.
#pragma once

#include <bit>
#include <cstdint>

#include "src/types/element.h"

namespace tutti::types {

/// The value of a code, which is in the low bits. A NaN keeps being one.
constexpr float decoded(FloatFormat format, uint32_t code) {
  const uint32_t rebias = uint32_t(127 - format.bias()) << 23;
  const uint32_t exponent_mask = ((1u << format.exponent_bits) - 1) << 23;
  const uint32_t sign = (code & format.sign_mask()) << format.sign_shift();
  const uint32_t magnitude = (code & format.magnitude_mask()) << format.dropped_bits();
  const uint32_t exponent = magnitude & exponent_mask;
  uint32_t bits = magnitude + rebias;
  if (exponent == 0) {
    const uint32_t one_up = rebias + (1u << 23);
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + one_up) -
                                   std::bit_cast<float>(one_up));
  } else if (format.ieee && exponent == exponent_mask) {
    bits = magnitude | 0x7F800000u;
  } else if (!format.ieee && (code & format.magnitude_mask()) == format.nan_code) {
    bits = 0x7FC00000u;
  }
  return std::bit_cast<float>(bits | sign);
}

constexpr float decoded_bfloat16(uint32_t code) { return std::bit_cast<float>(code << 16); }

/// The nearest code, of two equally near ones the even one. Every NaN is the one that is stored.
constexpr uint32_t encoded(FloatFormat format, float value) {
  const int dropped = format.dropped_bits();
  const uint32_t rebias = uint32_t(127 - format.bias()) << 23;
  const uint32_t overflow = rebias + (1u << (23 + format.exponent_bits));
  if (value != value) return format.nan_code;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t whole = bits ^ sign;
  const uint32_t magnitude = whole < overflow ? whole : overflow;
  uint32_t code = 0;
  if (magnitude < rebias + (1u << 23)) {
    const uint32_t aligner = rebias + (uint32_t(dropped + 1) << 23);
    code =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(aligner)) -
        aligner;
  } else {
    const uint32_t odd = magnitude >> dropped & 1u;
    code = (magnitude + odd + (1u << (dropped - 1)) - 1 - rebias) >> dropped;
  }
  code = code < format.max_code ? code : format.max_code;
  return code | sign >> format.sign_shift();
}

constexpr uint32_t encoded_bfloat16(float value) {
  if (value != value) return 0x7FC0u;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits + (bits >> 16 & 1u) + 0x7FFFu) >> 16;
}

}  // namespace tutti::types
