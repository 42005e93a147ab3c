// Element types and reduction operations. The values are those of tutti.h, and so NCCL's where NCCL
// has them: neither the C API nor the drop-in needs a translation table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::types {

enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
  kInt16 = 12,
  kUint16 = 13,
  kBool = 14,  // a byte of 0 or 1
};
inline constexpr int kDataTypes = 15;

enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
  kScaledSum = 8,  // each rank multiplies its contribution first, by a scalar of its own
};
inline constexpr int kReduceOps = 8;       // those that need nothing beside their name
inline constexpr int kNamedReduceOps = 9;  // all

/// Bytes of one element.
constexpr size_t size_of(DataType type) {
  constexpr uint8_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1};
  return kSizes[static_cast<uint8_t>(type)];
}

constexpr bool is_float(DataType type) {
  return type >= DataType::kFloat16 && type <= DataType::kFloat8E5M2;
}

constexpr bool is_bitwise(ReduceOp op) {
  return op >= ReduceOp::kBitAnd && op <= ReduceOp::kBitXor;
}

/// Whether the operation means anything for the type: bits of a float are no number's, and a bool
/// has no fractions.
constexpr bool can_reduce(DataType type, ReduceOp op) {
  if (is_bitwise(op)) return !is_float(type);
  return type != DataType::kBool || (op != ReduceOp::kAvg && op != ReduceOp::kScaledSum);
}

constexpr const char* name_of(DataType type) {
  constexpr const char* kNames[kDataTypes] = {"int8",     "uint8",    "int32", "uint32", "int64",
                                              "uint64",   "half",     "float", "double", "bfloat16",
                                              "fp8_e4m3", "fp8_e5m2", "int16", "uint16", "bool"};
  return kNames[static_cast<uint8_t>(type)];
}

constexpr const char* name_of(ReduceOp op) {
  constexpr const char* kNames[kNamedReduceOps] = {"sum",  "prod", "max",  "min",       "avg",
                                                   "band", "bor",  "bxor", "scaled_sum"};
  return kNames[static_cast<uint8_t>(op)];
}

}  // namespace tutti::types
