// The work of codecs on one value, for all processors: the vectors of *_inl.h take the same steps
// and give the same bits. Nothing here allocates, throws or calls a library, so kernels of devices
// can be made of it, as of narrow_float.h.
//
// Threads: pure functions. Errors: none.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tutti::codecs {

inline constexpr uint32_t kMagnitudeMask = 0x7FFFFFFFu;
inline constexpr uint32_t kInfinityBits = 0x7F800000u;

constexpr uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & kMagnitudeMask;
}

// ---- whole numbers times a scale ----

/// `largest` holds the bits of a magnitude. A block with NaN or infinity has the scale NaN.
constexpr float scale_of(uint32_t largest, int levels) {
  if (largest >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 1.0f;
  constexpr uint32_t kLeastNormal = 0x00800000u;
  const float exact = std::bit_cast<float>(largest) / static_cast<float>(levels);
  // 16 significant bits are left: multiples of it by up to 127 are exact.
  const uint32_t cut = std::bit_cast<uint32_t>(exact) & 0xFFFFFF00u;
  return std::bit_cast<float>(cut < kLeastNormal ? kLeastNormal : cut);
}

/// The nearest whole number of scales, ties to even. The scale is no NaN.
constexpr int32_t level_of(float value, float scale, int levels) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: its last bit is worth 1
  const float most = static_cast<float>(levels);
  const float exact = value / scale;
  const float held = exact > most ? most : exact < -most ? -most : exact;
  return static_cast<int32_t>((held + kRounder) - kRounder);
}

/// The bits that four values share, from the key of an array and their index over 4.
constexpr uint64_t draw_of(uint64_t key, uint64_t quarter) {
  uint64_t bits = key + quarter * 0x9E3779B97F4A7C15u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return bits ^ bits >> 31;
}

/// A value that is added before rounding to nearest, so that rounding is up as often as its
/// fraction says: one of 65536 numbers between -1/2 and 1/2.
constexpr float dither_of(uint64_t key, uint64_t index) {
  const uint64_t draw = draw_of(key, index / 4) >> (index % 4 * 16) & 0xFFFFu;
  return (static_cast<float>(draw) + 0.5f) / 65536 - 0.5f;
}

// ---- powers of two ----

/// A block's largest code stands for 2^(top - 127). NaN and infinity give kPoisonedTop.
inline constexpr uint32_t kLeastTop = 8;
inline constexpr uint32_t kMostTop = 254;
inline constexpr uint32_t kPoisonedTop = 255;
inline constexpr uint32_t kPowers = 7;  // codes without zero and sign

constexpr uint32_t top_of(uint32_t largest) {
  if (largest >= kInfinityBits) return kPoisonedTop;
  const uint32_t rounded = (largest + 0x00400000u) >> 23;  // half a mantissa up: 1.5 goes up
  return rounded < kLeastTop ? kLeastTop : rounded > kMostTop ? kMostTop : rounded;
}

constexpr uint32_t power_code(float value, uint32_t top) {
  const uint32_t magnitude = magnitude_bits(value);
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31 << 3;
  if (magnitude < (top - kPowers) << 23) return sign;  // below half of the least
  const uint32_t rounded = (magnitude + 0x00400000u) >> 23;
  const uint32_t code = rounded > top - kPowers ? rounded - (top - kPowers) : 1;
  return sign | (code > kPowers ? kPowers : code);
}

constexpr float power_value(uint32_t code, uint32_t top) {
  if (top == kPoisonedTop) return std::numeric_limits<float>::quiet_NaN();
  const uint32_t place = code & 7;
  const uint32_t magnitude = place == 0 ? 0 : (top - kPowers + place) << 23;
  return std::bit_cast<float>(magnitude | code >> 3 << 31);
}

// ---- one byte of a logarithm ----

/// Field f of a code's lower seven bits stands for exp((f - 64) / 8), 0 for zero. 0x80 is NaN.
inline constexpr uint32_t kLogNan = 0x80;
/// Magnitudes are looked up by their exponent and three more bits; in such an interval lies at most
/// one border between two fields.
inline constexpr int32_t kFirstLogKey = (127 - 13) << 3;
inline constexpr int32_t kLogKeys = 25 << 3;

struct LogTables {
  float values[256]{};
  uint32_t fields[kLogKeys]{};  // of the least magnitude of an interval
  float borders[kLogKeys]{};    // where the next field begins, or infinity
};

constexpr LogTables make_log_tables() {
  constexpr double kStep = 1.1331484530668263168;  // exp(1 / 8)
  constexpr double kHalf = 1.0644944589178594296;  // exp(1 / 16)
  LogTables tables;
  double powers[64] = {1};
  for (int i = 1; i < 64; ++i) powers[i] = powers[i - 1] * kStep;
  float borders[128] = {};
  for (int f = 1; f < 128; ++f) {
    const double exact = f >= 64 ? powers[f - 64] : 1 / powers[64 - f];
    tables.values[f] = static_cast<float>(exact);
    tables.values[128 + f] = -tables.values[f];
    borders[f] = static_cast<float>(f == 1 ? exact / 2 : exact / kHalf);
  }
  tables.values[kLogNan] = std::numeric_limits<float>::quiet_NaN();
  for (int32_t key = 0; key < kLogKeys; ++key) {
    const auto low = std::bit_cast<float>(static_cast<uint32_t>(kFirstLogKey + key) << 20);
    const auto high = std::bit_cast<float>(static_cast<uint32_t>(kFirstLogKey + key + 1) << 20);
    uint32_t field = 0;
    while (field < 127 && borders[field + 1] <= low) ++field;
    tables.fields[key] = field;
    const bool has_border = field < 127 && borders[field + 1] < high;
    tables.borders[key] = has_border ? borders[field + 1] : std::numeric_limits<float>::infinity();
  }
  return tables;
}
inline constexpr LogTables kLogTables = make_log_tables();

constexpr uint32_t log_code(float value) {
  const uint32_t magnitude = magnitude_bits(value);
  if (magnitude >= kInfinityBits) return kLogNan;
  const int32_t wanted = static_cast<int32_t>(magnitude >> 20) - kFirstLogKey;
  const int32_t key = wanted < 0 ? 0 : wanted >= kLogKeys ? kLogKeys - 1 : wanted;
  const bool next = std::bit_cast<float>(magnitude) >= kLogTables.borders[key];
  const uint32_t field = kLogTables.fields[key] + (next ? 1 : 0);
  return field == 0 ? 0 : field | std::bit_cast<uint32_t>(value) >> 31 << 7;
}

constexpr float log_value(uint32_t code) { return kLogTables.values[code]; }

}  // namespace tutti::codecs
