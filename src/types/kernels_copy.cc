// Copies by vectors, once per instruction set.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/types/kernels_copy.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // includes this file again, once per target
#include <hwy/highway.h>

#include <cstring>

#include "src/types/kernels_impl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void copy_cached(std::byte* target, const std::byte* source, size_t bytes) {
  std::memcpy(target, source, bytes);
}

void copy_past_cache(std::byte* target, const std::byte* source, size_t bytes) {
  std::memcpy(target, source, bytes);
}

#else

// The source may be in another processor's cache. The fewer instructions there are to a line, the
// more lines are on their way at a time: so several vectors a turn, and nothing to decide in it.
template <class D, class Store>
HWY_INLINE void copy(D d, std::byte* target, const std::byte* source, size_t bytes, Store store) {
  const size_t width = hn::Lanes(d);
  auto* const to = reinterpret_cast<uint8_t*>(target);
  const auto* const from = reinterpret_cast<const uint8_t*>(source);
  hn::StoreU(hn::LoadU(d, from), d, to);  // up to where the target is aligned, and beyond
  size_t at = width - reinterpret_cast<uintptr_t>(target) % width;
  for (; at + 4 * width <= bytes; at += 4 * width) {
    const auto v0 = hn::LoadU(d, from + at);
    const auto v1 = hn::LoadU(d, from + at + width);
    const auto v2 = hn::LoadU(d, from + at + 2 * width);
    const auto v3 = hn::LoadU(d, from + at + 3 * width);
    store(v0, to + at);
    store(v1, to + at + width);
    store(v2, to + at + 2 * width);
    store(v3, to + at + 3 * width);
  }
  for (; at + width <= bytes; at += width) store(hn::LoadU(d, from + at), to + at);
  if (at < bytes) hn::StoreU(hn::LoadU(d, from + bytes - width), d, to + bytes - width);
}

void copy_cached(std::byte* target, const std::byte* source, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto store = [d](hn::Vec<decltype(d)> v, uint8_t* to) HWY_ATTR { hn::Store(v, d, to); };
  copy(d, target, source, bytes, store);
}

void copy_past_cache(std::byte* target, const std::byte* source, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto store = [d](hn::Vec<decltype(d)> v, uint8_t* to) HWY_ATTR { hn::Stream(v, d, to); };
  copy(d, target, source, bytes, store);
  hwy::FlushStream();
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::types {

HWY_EXPORT(copy_cached);
HWY_EXPORT(copy_past_cache);

void copy_vectors(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes == 0 || target == source) return;
  if (bytes < kLeastVectors) {
    std::memcpy(target, source, bytes);
  } else {
    HWY_DYNAMIC_DISPATCH(copy_cached)(target, source, bytes);
  }
}

void copy_streaming(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes == 0 || target == source) return;
  if (bytes < kLeastStreamed) {
    std::memcpy(target, source, bytes);
  } else {
    HWY_DYNAMIC_DISPATCH(copy_past_cache)(target, source, bytes);
  }
}

}  // namespace tutti::types
#endif
