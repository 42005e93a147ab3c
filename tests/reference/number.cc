#include "tests/reference/number.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tutti::reference {
namespace {

struct Type {
  const char* name;
  size_t bytes;
  bool floating;
  bool negative;      // integers: has a sign
  int exponent_bits;  // floats
  int fraction_bits;
};

// In the order of tuttiDataType_t.
constexpr Type kTable[kTypes] = {
    {"int8", 1, false, true, 0, 0},      {"uint8", 1, false, false, 0, 0},
    {"int32", 4, false, true, 0, 0},     {"uint32", 4, false, false, 0, 0},
    {"int64", 8, false, true, 0, 0},     {"uint64", 8, false, false, 0, 0},
    {"float16", 2, true, true, 5, 10},   {"float32", 4, true, true, 8, 23},
    {"float64", 8, true, true, 11, 52},  {"bfloat16", 2, true, true, 8, 7},
    {"float8e4m3", 1, true, true, 4, 3}, {"float8e5m2", 1, true, true, 5, 2},
    {"int16", 2, false, true, 0, 0},     {"uint16", 2, false, false, 0, 0},
    {"bool", 1, false, false, 0, 0},
};

const Type& row(tuttiDataType_t type) { return kTable[static_cast<int>(type)]; }

int bias_of(const Type& type) { return (1 << (type.exponent_bits - 1)) - 1; }

// E4M3 gives up infinities: only the greatest fraction of the greatest exponent is not a number.
bool has_infinity(const Type& type) { return type.exponent_bits != 4; }

uint64_t sign_bit(const Type& type) { return uint64_t{1} << (type.bytes * 8 - 1); }

uint64_t overflow_bits(const Type& type) {
  const uint64_t exponent = ((uint64_t{1} << type.exponent_bits) - 1) << type.fraction_bits;
  const uint64_t fraction = (uint64_t{1} << type.fraction_bits) - 1;
  return has_infinity(type) ? exponent : exponent | fraction;
}

}  // namespace

const char* name_of(tuttiDataType_t type) { return row(type).name; }

const char* name_of(tuttiRedOp_t op) {
  constexpr const char* kNames[kOps] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};
  return kNames[static_cast<int>(op)];
}

size_t size_of(tuttiDataType_t type) { return row(type).bytes; }
bool is_float(tuttiDataType_t type) { return row(type).floating; }
bool is_signed(tuttiDataType_t type) { return row(type).negative; }
bool can_reduce(tuttiDataType_t type, tuttiRedOp_t op) {
  if (op == tuttiBitAnd || op == tuttiBitOr || op == tuttiBitXor) return !is_float(type);
  return type != tuttiBool || op != tuttiAvg;
}

bool can_scale(tuttiDataType_t type) { return type != tuttiBool; }

int precision_of(tuttiDataType_t type) { return row(type).fraction_bits + 1; }

long double least_step_of(tuttiDataType_t type) {
  return std::ldexp(1.0L, 1 - bias_of(row(type)) - row(type).fraction_bits);
}

uint64_t load(tuttiDataType_t type, const void* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, row(type).bytes);  // little endian, as every machine Tutti runs on
  return bits;
}

void store(tuttiDataType_t type, void* at, uint64_t bits) {
  std::memcpy(at, &bits, row(type).bytes);
}

uint64_t wrap(tuttiDataType_t type, uint64_t bits) {
  if (type == tuttiBool) return bits & 1;
  const size_t width = row(type).bytes * 8;
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

int64_t to_signed(tuttiDataType_t type, uint64_t bits) {
  const uint64_t sign = sign_bit(row(type));
  return static_cast<int64_t>((wrap(type, bits) ^ sign) - sign);
}

long double decode(tuttiDataType_t type, uint64_t bits) {
  const Type& t = row(type);
  if (!t.floating) {
    return t.negative ? static_cast<long double>(to_signed(type, bits))
                      : static_cast<long double>(wrap(type, bits));
  }
  const uint64_t magnitude = bits & (sign_bit(t) - 1);
  const long double sign = (bits & sign_bit(t)) != 0 ? -1.0L : 1.0L;
  const uint64_t limit = overflow_bits(t);
  if (magnitude > limit || (magnitude == limit && !has_infinity(t))) {
    return std::numeric_limits<long double>::quiet_NaN();
  }
  if (magnitude == limit) return sign * std::numeric_limits<long double>::infinity();
  const uint64_t one = uint64_t{1} << t.fraction_bits;
  const uint64_t exponent = magnitude >> t.fraction_bits;
  const uint64_t fraction = magnitude & (one - 1);
  const uint64_t significand = exponent == 0 ? fraction : fraction | one;
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - bias_of(t) - t.fraction_bits;
  return sign * std::ldexp(static_cast<long double>(significand), scale);
}

uint64_t encode(tuttiDataType_t type, long double value) {
  const Type& t = row(type);
  const uint64_t sign = std::signbit(value) ? sign_bit(t) : 0;
  if (std::isnan(value)) return overflow_bits(t) | 1;
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | overflow_bits(t);
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const int least = 1 - bias_of(t);
  const int power = exponent - 1 < least ? least : exponent - 1;
  // Scaling by powers of two is exact, so the only rounding is this one.
  const long double steps = std::nearbyint(std::ldexp(std::fabs(value), t.fraction_bits - power));
  if (power > bias_of(t) + 1) return sign | overflow_bits(t);
  // The hidden bit of a normal number, and a carry of the rounding, raise the exponent by one.
  const auto field = static_cast<uint64_t>(power + bias_of(t) - 1);
  const uint64_t bits = (field << t.fraction_bits) + static_cast<uint64_t>(steps);
  return sign | (bits < overflow_bits(t) ? bits : overflow_bits(t));
}

}  // namespace tutti::reference
