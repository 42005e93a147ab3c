// How a scale lies in encoded bytes, and what is true of codecs with one.
//
// Threads: pure functions. Errors: load_scale() is false for what no encoder writes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "src/codecs/bodies.h"
#include "src/codecs/codec.h"

namespace tutti::codecs {

inline void store_scale(float scale, std::byte* out) { std::memcpy(out, &scale, sizeof scale); }

inline bool load_scale(float& scale, const std::byte* in) {
  std::memcpy(&scale, in, sizeof scale);
  const auto bits = std::bit_cast<uint32_t>(scale);
  if (bits == std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN())) return true;
  return bits >= 0x00800000u && bits < kInfinityBits && (bits & 0xFFu) == 0;
}

/// Half a step, and what division, rounding and the least scale add to it.
inline CodecFacts facts_of_levels(int levels) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float half_step = 0.5f / static_cast<float>(levels);
  return {0,         half_step * (1 + 0x1p-16f),
          0x1p-127f, std::numeric_limits<float>::infinity(),
          kMost,     kMost};
}

}  // namespace tutti::codecs
