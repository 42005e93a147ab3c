// Element types and reduction operations. The values are NCCL's, so that the C API and the drop-in
// need no translation table.
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
};
inline constexpr int kDataTypes = 12;

enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kScaledSum = 5,  // each rank multiplies its contribution first, by a scalar of its own
};
inline constexpr int kReduceOps = 5;       // those that need nothing beside their name
inline constexpr int kNamedReduceOps = 6;  // all

/// Bytes of one element.
constexpr size_t size_of(DataType type) {
  constexpr uint8_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[static_cast<uint8_t>(type)];
}

constexpr bool is_float(DataType type) { return static_cast<uint8_t>(type) >= 6; }

constexpr const char* name_of(DataType type) {
  constexpr const char* kNames[kDataTypes] = {"int8",   "uint8",    "int32",    "uint32",
                                              "int64",  "uint64",   "half",     "float",
                                              "double", "bfloat16", "fp8_e4m3", "fp8_e5m2"};
  return kNames[static_cast<uint8_t>(type)];
}

constexpr const char* name_of(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg", "scaled_sum"};
  return kNames[static_cast<uint8_t>(op)];
}

}  // namespace tutti::types
