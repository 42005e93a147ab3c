// The fold of kernels.h written as plainly as possible, one element at a time: what the kernels are
// tested against. Nothing here knows bit tricks or vectors; formats are tables of their values.
//
// Only tests include this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "src/types/kernels.h"

namespace tutti::types::reference {

/// The bits of one element, in the low bits.
using Raw = uint64_t;

inline Raw load(DataType type, const std::byte* element) {
  Raw raw = 0;
  std::memcpy(&raw, element, size_of(type));  // the low bytes: tests run on little-endian machines
  return raw;
}

/// A float of at most 16 bits: all its values, in the order of their codes.
class Format {
 public:
  // `last_code` is what too large a value becomes. Where there is no infinity, it is given as the
  // code of the sign, which no magnitude has.
  Format(int exponent_bits, int mantissa_bits, Raw last_code, Raw infinity, Raw nan)
      : sign_(Raw{1} << (exponent_bits + mantissa_bits)),
        overflows_(last_code == infinity),
        nan_(nan),
        infinity_(infinity) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (Raw code = 0; code <= last_code; ++code) {
      const int exponent = static_cast<int>(code >> mantissa_bits);
      const Raw mantissa = code & ((Raw{1} << mantissa_bits) - 1);
      const double fraction = std::ldexp(double(mantissa), -mantissa_bits);
      values_.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                      : std::ldexp(1 + fraction, exponent - bias));
    }
  }

  double decode(Raw code) const {
    const Raw magnitude = code & (sign_ - 1);
    double value = std::numeric_limits<double>::quiet_NaN();
    if (magnitude == infinity_) value = std::numeric_limits<double>::infinity();
    if (magnitude < infinity_ && magnitude < values_.size()) value = values_[magnitude];
    return code & sign_ ? -value : value;
  }

  // The nearest value; of two equally near ones, that with the even code. Infinity takes part as
  // the power of two that would follow, where the format overflows to it.
  Raw encode(double value) const {
    if (std::isnan(value)) return nan_;
    const double magnitude = std::fabs(value);
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    Raw code = static_cast<Raw>(above - values_.begin());
    if (code == values_.size()) {
      --code;
    } else if (code > 0) {
      const double up = *above - magnitude;
      const double down = magnitude - values_[code - 1];
      if (down < up || (down == up && code % 2 == 1)) --code;
    }
    return code | (std::signbit(value) ? sign_ : 0);
  }

  // The codes of values that are not negative.
  Raw codes() const { return values_.size(); }
  double value(Raw code) const { return values_[code]; }
  bool overflows() const { return overflows_; }

 private:
  Raw sign_;
  bool overflows_;
  Raw nan_;
  Raw infinity_;
  std::vector<double> values_;
};

/// Null for the other types.
inline const Format* format_of(DataType type) {
  static const Format half(5, 10, 0x7C00, 0x7C00, 0x7E00);
  static const Format bfloat(8, 7, 0x7F80, 0x7F80, 0x7FC0);
  static const Format e4m3(4, 3, 0x7E, 0x80, 0x7F);
  static const Format e5m2(5, 2, 0x7B, 0x7C, 0x7E);
  switch (type) {
    case DataType::kFloat16:
      return &half;
    case DataType::kBfloat16:
      return &bfloat;
    case DataType::kFloat8E4M3:
      return &e4m3;
    case DataType::kFloat8E5M2:
      return &e5m2;
    default:
      return nullptr;
  }
}

template <class T>
T number(Raw raw) {
  T value;
  std::memcpy(&value, &raw, sizeof(value));
  return value;
}

template <class T>
Raw raw_of(T value) {
  Raw raw = 0;
  std::memcpy(&raw, &value, sizeof(value));
  return raw;
}

// ---- operations --------------------------------------------------------------------------------

inline double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) && std::signbit(b) ? -0.0 : 0.0;
  return a > b ? a : b;
}

// In double: rounding its result to float is rounding once, for every operation here.
inline double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return larger(a, b);
    case ReduceOp::kMin:
      return -larger(-a, -b);
    default:
      return a + b;
  }
}

template <class T>
T combine_integers(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kProd:
      return static_cast<T>(uint64_t(a) * uint64_t(b));
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kBitAnd:
      return static_cast<T>(a & b);
    case ReduceOp::kBitOr:
      return static_cast<T>(a | b);
    case ReduceOp::kBitXor:
      return static_cast<T>(a ^ b);
    default:
      return static_cast<T>(uint64_t(a) + uint64_t(b));
  }
}

template <class T, class Combine>
T fold(FoldOrder order, std::vector<T> values, Combine combine) {
  if (order == FoldOrder::kList) {
    T folded = values[0];
    for (size_t i = 1; i < values.size(); ++i) folded = combine(folded, values[i]);
    return folded;
  }
  while (values.size() > 1) {  // level by level
    std::vector<T> level;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      level.push_back(combine(values[i], values[i + 1]));
    }
    if (values.size() % 2 == 1) level.push_back(values.back());
    values = level;
  }
  return values[0];
}

// ---- one element of a call ---------------------------------------------------------------------

struct Expression {
  DataType type;
  ReduceOp op;
  FoldOrder order;
  const uint64_t* scaled = nullptr;
  double scale = 1;
  int64_t divisor = 1;

  bool is_scaled(size_t source) const {
    return scaled != nullptr && (scaled[source / 64] >> (source % 64)) & 1;
  }
};

template <class T>
Raw fold_integers(const Expression& e, const std::vector<Raw>& sources) {
  std::vector<T> values;
  for (size_t i = 0; i < sources.size(); ++i) {
    const T value = number<T>(sources[i]);
    const uint64_t factor = e.scale < 0 ? uint64_t(int64_t(e.scale)) : uint64_t(e.scale);
    values.push_back(e.is_scaled(i) ? static_cast<T>(uint64_t(value) * factor) : value);
  }
  const T folded = fold(e.order, values, [&](T a, T b) { return combine_integers(e.op, a, b); });
  return raw_of(static_cast<T>(folded / static_cast<T>(e.divisor)));
}

template <class Narrow>
Raw fold_floats(const Expression& e, const std::vector<Raw>& sources, Narrow narrow) {
  const Format* format = format_of(e.type);
  std::vector<double> values;
  for (size_t i = 0; i < sources.size(); ++i) {
    double value = format != nullptr              ? format->decode(sources[i])
                   : e.type == DataType::kFloat32 ? double(number<float>(sources[i]))
                                                  : number<double>(sources[i]);
    if (e.is_scaled(i)) value = narrow(value * narrow(e.scale));
    values.push_back(value);
  }
  const bool rounds = format != nullptr && e.order == FoldOrder::kTree;
  const double folded = fold(e.order, values, [&](double a, double b) {
    const double value = narrow(combine(e.op, a, b));
    return rounds ? format->decode(format->encode(value)) : value;
  });
  if (format != nullptr) return format->encode(folded);
  if (e.type == DataType::kFloat64) return std::isnan(folded) ? 0x7FF8000000000000 : raw_of(folded);
  return std::isnan(folded) ? 0x7FC00000 : raw_of(static_cast<float>(folded));
}

// Of 0 and 1.
inline Raw fold_bools(const Expression& e, const std::vector<Raw>& sources) {
  const auto trues = static_cast<size_t>(std::count(sources.begin(), sources.end(), Raw{1}));
  switch (e.op) {
    case ReduceOp::kProd:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return trues == sources.size();
    case ReduceOp::kBitXor:
      return trues % 2;
    default:
      return trues > 0;
  }
}

inline Raw fold(const Expression& e, const std::vector<Raw>& sources) {
  switch (e.type) {
    case DataType::kBool:
      return fold_bools(e, sources);
    case DataType::kInt16:
      return fold_integers<int16_t>(e, sources);
    case DataType::kUint16:
      return fold_integers<uint16_t>(e, sources);
    case DataType::kInt8:
      return fold_integers<int8_t>(e, sources);
    case DataType::kUint8:
      return fold_integers<uint8_t>(e, sources);
    case DataType::kInt32:
      return fold_integers<int32_t>(e, sources);
    case DataType::kUint32:
      return fold_integers<uint32_t>(e, sources);
    case DataType::kInt64:
      return fold_integers<int64_t>(e, sources);
    case DataType::kUint64:
      return fold_integers<uint64_t>(e, sources);
    case DataType::kFloat64:
      return fold_floats(e, sources, [](double value) { return value; });
    default:
      return fold_floats(e, sources, [](double value) { return double(float(value)); });
  }
}

}  // namespace tutti::types::reference
