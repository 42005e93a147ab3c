// The arithmetic of a MOVE: several sources are folded into one value which is stored to one or
// more targets, in a single pass over memory. Kernels are chosen once, when a plan is bound, and
// called through a pointer.
//
// Threads: kernels keep no state; call them from anywhere.
// Units: `count` is in elements, `bytes` in bytes; pointers need only the alignment of the element.
// Ordering: none. Non-temporal stores are fenced before a kernel returns.
//
// The bits of a result depend on the elements and the order alone: not on where an element lies, on
// `count`, alignment, the store hint or the processor. Also a op b and b op a are the same bits.
//  - Integers wrap modulo 2^bits. A bool is a byte of 0 or 1: its sum and maximum are 1 if one is,
//    its product and minimum if all are.
//  - 16- and 8-bit floats become fp32 and are folded in fp32. In list order they are rounded once,
//    at the store, to nearest even. In tree order every node is rounded, so that it has the bits
//    it would have if it had been stored and sent in between (deterministic mode).
//  - float and double round at every operation. A product with `scale` is rounded before it is
//    added (nothing is fused).
//  - fp16 and bf16 overflow to infinity. Both fp8 formats saturate at their largest finite value,
//    infinities too, as CUDA's conversions (and so NCCL's reductions) do with __NV_SATFINITE.
//  - A NaN in any source makes the result NaN, for max and min as well, and always the same NaN:
//    positive, quiet, without payload (E4M3, which has but one: 0x7F). max(-0, +0) is +0.
//  - One source that is not scaled is copied; its bits stay as they are, a NaN's too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/types/fold_key.h"
#include "src/types/types.h"

namespace tutti::types {

/// One call of a kernel. Sources and targets may be equal but may not partly overlap.
struct FoldCall {
  std::byte* const* targets;
  const std::byte* const* sources;
  uint32_t target_count;
  uint32_t source_count;
  size_t count;  // elements
  // The next three count for sums alone, and only if the kernel was chosen for them (FoldKey).
  // PreMulSum and the average of floats: source i is multiplied by `scale` first where bit i%64 of
  // `scaled[i/64]` is set. Null: no source is scaled. The scale is rounded to the type that is
  // folded in; integers take its whole part modulo 2^bits.
  const uint64_t* scaled = nullptr;
  double scale = 1.0;
  // The average of integers: the folded value is divided, truncating toward zero. At least 1, which
  // does nothing.
  int64_t divisor = 1;
};

using FoldKernel = void (*)(const FoldCall& call);

/// The kernel for `key`, the fastest this processor can run. Requires: can_reduce(), or one source.
/// Never null: one source is a copy (or a
/// scaled copy). A kernel for (source_count, target_count) is called with just those counts.
FoldKernel fold_kernel(const FoldKey& key);

/// Copies `bytes` as StoreHint::kVectors says.
void copy_vectors(std::byte* target, const std::byte* source, size_t bytes);

/// Copies `bytes` with non-temporal stores where that pays, and fences.
void copy_streaming(std::byte* target, const std::byte* source, size_t bytes);

/// target[i] = source[i] * *scalar, all of one type that is no bool, each product rounded to it;
/// integers wrap. `source` and `target` may be equal but may not partly overlap.
void scale(DataType type, const std::byte* scalar, const std::byte* source, std::byte* target,
           size_t count);

/// The value of one element, as the kernels read it.
float to_float(DataType type, const std::byte* element);

}  // namespace tutti::types
