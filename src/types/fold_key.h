// Which kernel a fold needs, as a value: a plan holds the key, and the engine that runs the plan
// finds its kernel for it.
//
// Threads: values. Units: none. Errors: none.
#pragma once

#include <cstdint>

#include "src/types/types.h"

namespace tutti::types {

inline constexpr int kMaxSources = 1024;  // as many as a group this library folds in one step

/// The order in which sources are combined.
enum class FoldOrder : uint8_t {
  kList,  // ((s0 op s1) op s2) op ...
  kTree,  // balanced: s0 with s1, s2 with s3, then those results, ...; missing partners are skipped
};

enum class StoreHint : uint8_t {
  kCached,     // a copy is memcpy(), which does as the C library thinks best
  kVectors,    // as kCached, and long copies too are loads and stores of vectors
  kStreaming,  // non-temporal where that pays: the targets will not be read soon
};

struct FoldKey {
  DataType type = DataType::kFloat32;
  // kAvg and kScaledSum fold as kSum; scale and divisor are the caller's.
  ReduceOp op = ReduceOp::kSum;
  FoldOrder order = FoldOrder::kList;
  StoreHint store = StoreHint::kCached;
  uint32_t source_count = 2;
  uint32_t target_count = 1;
  bool scaled = false;  // the call will carry `scaled` or a divisor
};

/// The same fold of numbers, if it is one of bools: one of two is true, the greater one; both are,
/// the lesser one. All others are bitwise.
constexpr FoldKey of_numbers(FoldKey key) {
  if (key.type != DataType::kBool) return key;
  key.type = DataType::kUint8;
  if (key.op == ReduceOp::kSum) key.op = ReduceOp::kMax;
  if (key.op == ReduceOp::kProd) key.op = ReduceOp::kMin;
  return key;
}

}  // namespace tutti::types
