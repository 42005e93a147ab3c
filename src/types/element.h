// The facts about each element type for kernels: its form in memory, and the type in which it is
// folded.
//
// Threads: constants only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/types/types.h"

namespace tutti::types {

/// The bit layout of a binary float narrower than 32 bits, as a compile-time value.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool ieee;          // the largest exponent means infinity and NaN; else only `nan_code` is NaN
  uint32_t max_code;  // what too large a value becomes, without its sign
  uint32_t nan_code;  // the one NaN that is ever stored

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint32_t sign_mask() const { return 1u << (bits() - 1); }
  constexpr uint32_t magnitude_mask() const { return sign_mask() - 1; }
  // Mantissa bits that a float has and this format has not.
  constexpr int dropped_bits() const { return 23 - mantissa_bits; }
  // How far a sign moves to become the sign of a float.
  constexpr int sign_shift() const { return 32 - bits(); }
};

inline constexpr FloatFormat kHalfFormat{5, 10, true, 0x7C00, 0x7E00};
// Both 8-bit formats saturate, infinities included, as CUDA's conversions with __NV_SATFINITE do.
inline constexpr FloatFormat kE4M3Format{4, 3, false, 0x7E, 0x7F};
inline constexpr FloatFormat kE5M2Format{5, 2, true, 0x7B, 0x7E};

/// Lane: what a vector of this type consists of while it is in memory form; several narrow elements
/// share one 32-bit lane, so that widening them never moves data between lanes.
/// Wide: what it is folded in. kParts: wide vectors per vector in memory form.
template <class T>
struct PlainElement {
  using Lane = T;
  using Wide = T;
  static constexpr size_t kSize = sizeof(T);
  static constexpr size_t kParts = 1;
};

template <size_t kBytes>
struct PackedElement {
  using Lane = uint32_t;
  using Wide = float;
  static constexpr size_t kSize = kBytes;
  static constexpr size_t kParts = sizeof(Lane) / kBytes;
};

/// Sums and products that wrap, and what is done bit by bit, are the same bits for both kinds of
/// integers.
constexpr DataType unsigned_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return DataType::kUint8;
    case DataType::kInt16:
      return DataType::kUint16;
    case DataType::kInt32:
      return DataType::kUint32;
    case DataType::kInt64:
      return DataType::kUint64;
    default:
      return type;
  }
}

template <DataType kType>
struct Element;
template <>
struct Element<DataType::kInt8> : PlainElement<int8_t> {};
template <>
struct Element<DataType::kUint8> : PlainElement<uint8_t> {};
template <>
struct Element<DataType::kInt16> : PlainElement<int16_t> {};
template <>
struct Element<DataType::kUint16> : PlainElement<uint16_t> {};
template <>
struct Element<DataType::kInt32> : PlainElement<int32_t> {};
template <>
struct Element<DataType::kUint32> : PlainElement<uint32_t> {};
template <>
struct Element<DataType::kInt64> : PlainElement<int64_t> {};
template <>
struct Element<DataType::kUint64> : PlainElement<uint64_t> {};
template <>
struct Element<DataType::kFloat32> : PlainElement<float> {};
template <>
struct Element<DataType::kFloat64> : PlainElement<double> {};
template <>
struct Element<DataType::kFloat16> : PackedElement<2> {
  static constexpr FloatFormat kFormat = kHalfFormat;
};
template <>
struct Element<DataType::kBfloat16> : PackedElement<2> {};
template <>
struct Element<DataType::kFloat8E4M3> : PackedElement<1> {
  static constexpr FloatFormat kFormat = kE4M3Format;
};
template <>
struct Element<DataType::kFloat8E5M2> : PackedElement<1> {
  static constexpr FloatFormat kFormat = kE5M2Format;
};

}  // namespace tutti::types
