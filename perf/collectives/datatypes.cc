#include "perf/collectives/datatypes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

/// A binary float of up to 16 bits: sign, exponent, mantissa, with subnormals.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // e4m3 has none: its highest exponent holds numbers too

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  size_t bytes() const { return exponent_bits + mantissa_bits > 7 ? 2 : 1; }
};

SmallFloat small_float(tuttiDataType_t id) {
  switch (id) {
    case tuttiFloat16:
      return {5, 10, true};
    case tuttiBfloat16:
      return {8, 7, true};
    case tuttiFloat8e4m3:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

uint16_t encode_small(const SmallFloat& format, double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 1 : 0);
  int exponent = 0;
  const double fraction =
      std::frexp(std::fabs(value), &exponent);  // |value| = fraction * 2^exponent
  uint16_t magnitude = 0;
  if (fraction != 0) {
    const int lowest = 1 - format.bias();
    const int stored = std::max(exponent - 1, lowest);
    const double units = std::ldexp(std::fabs(value), format.mantissa_bits - stored);
    // A subnormal has no implicit bit, and then `units` is below 2^mantissa_bits: one sum serves
    // both.
    magnitude = static_cast<uint16_t>(((stored - lowest) << format.mantissa_bits) +
                                      static_cast<int>(units));
  }
  return static_cast<uint16_t>(magnitude | sign << (format.exponent_bits + format.mantissa_bits));
}

double decode_small(const SmallFloat& format, uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int top_exponent = (1 << format.exponent_bits) - 1;
  const int exponent = bits >> format.mantissa_bits & top_exponent;
  const int top_mantissa = (1 << format.mantissa_bits) - 1;
  double value = 0;
  if (exponent == top_exponent && (format.has_infinity || mantissa == top_mantissa)) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    const int significand = mantissa + (1 << format.mantissa_bits);
    value = std::ldexp(significand, exponent - format.bias() - format.mantissa_bits);
  }
  return bits >> (format.exponent_bits + format.mantissa_bits) & 1 ? -value : value;
}

template <class T>
void store(double value, std::byte* element) {
  const T number = static_cast<T>(value);
  std::memcpy(element, &number, sizeof number);
}

template <class T>
T load(const std::byte* element) {
  T number;
  std::memcpy(&number, element, sizeof number);
  return number;
}

void store_small(const SmallFloat& format, double value, std::byte* element) {
  const uint16_t bits = encode_small(format, value);
  std::memcpy(element, &bits, format.bytes());  // the low byte comes first
}

double load_small(const SmallFloat& format, const std::byte* element) {
  uint16_t bits = 0;
  std::memcpy(&bits, element, format.bytes());
  return decode_small(format, bits);
}

template <class Item>
std::string names_of(const std::vector<Item>& items) {
  std::string names;
  for (const Item& item : items) names += std::string(names.empty() ? "" : ", ") + item.name;
  return names + ", all";
}

template <class Item>
auto parse_names(const std::vector<Item>& items, std::string_view name, const char* what) {
  std::vector<decltype(Item::id)> found;
  for (const Item& item : items) {
    if (name == "all" || name == item.name) found.push_back(item.id);
  }
  if (found.empty()) {
    throw PerfError(
        std::string(what) + " '" + std::string(name) + "' is not one of " + names_of(items),
        kExitUsage);
  }
  return found;
}

}  // namespace

const std::vector<DataType>& all_data_types() {
  static const std::vector<DataType> types = {
      {tuttiInt8, "int8", 1, false, true, 6, 6},
      {tuttiUint8, "uint8", 1, false, false, 7, 6},
      {tuttiInt32, "int32", 4, false, true, 30, 30},
      {tuttiUint32, "uint32", 4, false, false, 31, 31},
      {tuttiInt64, "int64", 8, false, true, 50, 50},
      {tuttiUint64, "uint64", 8, false, false, 50, 50},
      {tuttiFloat16, "half", 2, true, true, 11, 14},
      {tuttiFloat32, "float", 4, true, true, 24, 100},
      {tuttiFloat64, "double", 8, true, true, 50, 1000},
      {tuttiBfloat16, "bfloat16", 2, true, true, 8, 100},
      {tuttiFloat8e4m3, "f8e4m3", 1, true, true, 4, 6},
      {tuttiFloat8e5m2, "f8e5m2", 1, true, true, 3, 14},
      {tuttiInt16, "int16", 2, false, true, 15, 14},
      {tuttiUint16, "uint16", 2, false, false, 16, 15},
      {tuttiBool, "bool", 1, false, false, 1, 0},
  };
  return types;
}

const DataType& data_type(tuttiDataType_t id) {
  for (const DataType& type : all_data_types()) {
    if (type.id == id) return type;
  }
  throw PerfError("unknown data type " + std::to_string(static_cast<int>(id)));
}

const std::vector<ReduceOp>& all_reduce_ops() {
  static const std::vector<ReduceOp> ops = {
      {tuttiSum, "sum"},   {tuttiProd, "prod"},   {tuttiMax, "max"},
      {tuttiMin, "min"},   {tuttiAvg, "avg"},     {tuttiBitAnd, "band"},
      {tuttiBitOr, "bor"}, {tuttiBitXor, "bxor"}, {kMulSum, "mulsum"}};
  return ops;
}

bool is_defined(const DataType& type, tuttiRedOp_t op) {
  if (type.id == tuttiBool) return op != tuttiAvg && op != kMulSum;
  return !type.is_float || logic_of(type, op) == Logic::kNone;
}

Logic logic_of(const DataType& type, tuttiRedOp_t op) {
  const bool of_bools = type.id == tuttiBool;
  switch (op) {
    case tuttiBitAnd:
      return Logic::kAnd;
    case tuttiBitOr:
      return Logic::kOr;
    case tuttiBitXor:
      return Logic::kXor;
    case tuttiProd:
    case tuttiMin:
      return of_bools ? Logic::kAnd : Logic::kNone;
    default:
      return of_bools ? Logic::kOr : Logic::kNone;
  }
}

double combined(Logic logic, double a, double b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (logic == Logic::kAnd) return static_cast<double>(x & y);
  return static_cast<double>(logic == Logic::kOr ? x | y : x ^ y);
}

const char* reduce_op_name(tuttiRedOp_t id) {
  for (const ReduceOp& op : all_reduce_ops()) {
    if (op.id == id) return op.name;
  }
  return "?";
}

std::vector<tuttiDataType_t> parse_data_types(std::string_view name) {
  return parse_names(all_data_types(), name, "type");
}

std::vector<tuttiRedOp_t> parse_reduce_ops(std::string_view name) {
  return parse_names(all_reduce_ops(), name, "operation");
}

void encode(const DataType& type, double value, std::byte* element) {
  switch (type.id) {
    case tuttiInt8:
      return store<int8_t>(value, element);
    case tuttiUint8:
    case tuttiBool:
      return store<uint8_t>(value, element);
    case tuttiInt16:
      return store<int16_t>(value, element);
    case tuttiUint16:
      return store<uint16_t>(value, element);
    case tuttiInt32:
      return store<int32_t>(value, element);
    case tuttiUint32:
      return store<uint32_t>(value, element);
    case tuttiInt64:
      return store<int64_t>(value, element);
    case tuttiUint64:
      return store<uint64_t>(value, element);
    case tuttiFloat32:
      return store<float>(value, element);
    case tuttiFloat64:
      return store<double>(value, element);
    default:
      return store_small(small_float(type.id), value, element);
  }
}

double decode(const DataType& type, const std::byte* element) {
  switch (type.id) {
    case tuttiInt8:
      return load<int8_t>(element);
    case tuttiUint8:
    case tuttiBool:
      return load<uint8_t>(element);
    case tuttiInt16:
      return load<int16_t>(element);
    case tuttiUint16:
      return load<uint16_t>(element);
    case tuttiInt32:
      return load<int32_t>(element);
    case tuttiUint32:
      return load<uint32_t>(element);
    case tuttiInt64:
      return static_cast<double>(load<int64_t>(element));
    case tuttiUint64:
      return static_cast<double>(load<uint64_t>(element));
    case tuttiFloat32:
      return load<float>(element);
    case tuttiFloat64:
      return load<double>(element);
    default:
      return load_small(small_float(type.id), element);
  }
}

}  // namespace tutti::perf
