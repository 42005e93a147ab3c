// The narrow floats: bf16, fp16 and both 8-bit formats.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/floats.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/coded_inl.h"
#include "src/types/element.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

struct NoState {};

struct BfloatBody {
  using BodyState = NoState;
  static constexpr size_t kHeader = 0;
  static constexpr int kCodeBits = 16;
  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> code(D d, hn::Vec<D> v, BodyState) {
    using namespace types::HWY_NAMESPACE;
    return hn::ShiftRight<16>(rounded_to_upper_half(d, with_one_nan(d, v)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<Bits<D>> code, BodyState) {
    return hn::BitCast(d, hn::ShiftLeft<16>(code));
  }
};

template <const types::FloatFormat& kFormat>
struct FloatBody {
  using BodyState = NoState;
  static constexpr size_t kHeader = 0;
  static constexpr int kCodeBits = kFormat.bits();
  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> code(D d, hn::Vec<D> v, BodyState) {
    return types::HWY_NAMESPACE::encode<kFormat>(d, v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<Bits<D>> code, BodyState) {
    return types::HWY_NAMESPACE::decode<kFormat>(d, code);
  }
};

CodecKernels bf16_kernels() { return kernels_of<BfloatBody>(); }
CodecKernels fp16_kernels() { return kernels_of<FloatBody<types::kHalfFormat>>(); }
CodecKernels e4m3_kernels() { return kernels_of<FloatBody<types::kE4M3Format>>(); }
CodecKernels e5m2_kernels() { return kernels_of<FloatBody<types::kE5M2Format>>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(bf16_kernels);
HWY_EXPORT(fp16_kernels);
HWY_EXPORT(e4m3_kernels);
HWY_EXPORT(e5m2_kernels);

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoLimit = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();

template <uint64_t kBytes>
uint64_t bytes_of(const CodecNumbers& /*numbers*/, uint64_t count) {
  return count * kBytes;
}

}  // namespace

CodecFamily bf16_family() {
  return {"bf16",
          0,
          {},
          check_no_numbers,
          bytes_of<2>,
          [](const CodecNumbers&) -> CodecFacts {
            // Above the last limit, halfway to 2^128, values would become infinity.
            return {0x1p-8f, 0, 0x1p-134f, kInfinity, kNoLimit, 0x1.FEFFFEp127f};
          },
          [] { return HWY_DYNAMIC_DISPATCH(bf16_kernels)(); },
          {0.21, 0.19}};
}

CodecFamily fp16_family() {
  return {"fp16",
          0,
          {},
          check_no_numbers,
          bytes_of<2>,
          [](const CodecNumbers&) -> CodecFacts {
            return {0x1p-11f, 0, 0x1p-25f, kInfinity, 0x1.FFDFFEp15f, 0x1.FFDFFEp15f};
          },
          [] { return HWY_DYNAMIC_DISPATCH(fp16_kernels)(); },
          {0.41, 0.17}};
}

// The rest of a value that saturates fits fp32 as long as its last bit is not worth more than that
// of the largest value, 7 * 2^6 or 7 * 2^13.
CodecFamily fp8_e4m3_family() {
  return {
      "fp8_e4m3",
      0,
      {},
      check_no_numbers,
      bytes_of<1>,
      [](const CodecNumbers&) -> CodecFacts { return {0x1p-4f, 0, 0x1p-10f, 448, kMost, 0x1p29f}; },
      [] { return HWY_DYNAMIC_DISPATCH(e4m3_kernels)(); },
      {0.4, 0.16}};
}

CodecFamily fp8_e5m2_family() {
  return {"fp8_e5m2",
          0,
          {},
          check_no_numbers,
          bytes_of<1>,
          [](const CodecNumbers&) -> CodecFacts {
            return {0x1p-3f, 0, 0x1p-17f, 57344, kMost, 0x1p36f};
          },
          [] { return HWY_DYNAMIC_DISPATCH(e5m2_kernels)(); },
          {0.4, 0.16}};
}

}  // namespace tutti::codecs
#endif
