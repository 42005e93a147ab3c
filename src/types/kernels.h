// The arithmetic of a MOVE: several sources are folded into one value which is stored to one or more
// targets, in a single pass over memory. Kernels are chosen once, when a plan is bound, and called
// through a pointer.
//
// Threads: kernels keep no state; call them from anywhere.
// Units: `count` is in elements, `bytes` in bytes; pointers need only the alignment of the element.
// Ordering: none. Non-temporal stores are fenced before a kernel returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/types/types.h"

namespace tutti::types {

inline constexpr int kMaxSources = 1024;  // as many as a group this library folds in one step

/// The order in which sources are combined. Both orders round a 16- or 8-bit float once, at the store:
/// everything before that is fp32.
enum class FoldOrder : uint8_t {
  kList,  // ((s0 op s1) op s2) op ...
  kTree,  // the balanced tree: s0 with s1, s2 with s3, then those results, ...; a missing partner is skipped
};

enum class StoreHint : uint8_t {
  kCached,
  kStreaming,  // non-temporal: the targets will not be read soon (x86-64; elsewhere the same as kCached)
};

/// One call of a kernel. Sources and targets may be equal but may not partly overlap.
struct FoldCall {
  std::byte* const* targets;
  const std::byte* const* sources;
  uint32_t target_count;
  uint32_t source_count;
  size_t count;  // elements
  // PreMulSum and the average of floats: source i is multiplied by `scale` first where bit i%64 of
  // `scaled[i/64]` is set. Null: no source is scaled.
  const uint64_t* scaled = nullptr;
  double scale = 1.0;
  // The average of integers: the folded value is divided (truncating toward zero). 1: nothing is done.
  int64_t divisor = 1;
};

using FoldKernel = void (*)(const FoldCall& call);

struct FoldKey {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // kAvg folds as kSum; scale and divisor are the caller's
  FoldOrder order = FoldOrder::kList;
  StoreHint store = StoreHint::kCached;
  uint32_t source_count = 2;
  uint32_t target_count = 1;
  bool scaled = false;  // the call will carry `scaled` or a divisor
};

/// The kernel for `key`, the fastest this processor can run. Never null: one source is a copy
/// (or a scaled copy). A kernel for (source_count, target_count) is called with just those counts.
FoldKernel fold_kernel(const FoldKey& key);

/// Copies `bytes` with non-temporal stores where that pays, and fences.
void copy_streaming(std::byte* target, const std::byte* source, size_t bytes);

/// The conversions, for tests and printing (round to nearest even; E4M3 saturates to NaN as OCP FN).
float to_float(DataType type, const std::byte* element);
void from_float(DataType type, float value, std::byte* element);

}  // namespace tutti::types
