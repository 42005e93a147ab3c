// e3m0: a sign and three bits that choose a power of two, below a block's largest one.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/powers.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/coded_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

struct PowerBody {
  using BodyState = uint32_t;  // top_of() the block
  static constexpr size_t kHeader = 1;
  static constexpr int kCodeBits = 4;
  static constexpr uint32_t kBelow = kLeastTop - 1;  // a header of 0 means nothing

  static BodyState prepare(uint32_t largest) { return top_of(largest); }
  static bool is_poisoned(BodyState top) { return top == kPoisonedTop; }
  static void store(BodyState top, std::byte* out) {
    *out = static_cast<std::byte>(is_poisoned(top) ? kPoisonedTop : top - kBelow);
  }
  static bool load(BodyState& top, const std::byte* in) {
    const auto header = static_cast<uint32_t>(*in);
    top = header == kPoisonedTop ? kPoisonedTop : header + kBelow;
    return is_poisoned(top) ? header == kPoisonedTop : header != 0 && top <= kMostTop;
  }

  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> code(D d, hn::Vec<D> v, BodyState top) {
    const Bits<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto sign = hn::ShiftLeft<3>(hn::ShiftRight<31>(bits));
    const auto magnitude = magnitudes(d, v);
    const auto rounded = hn::ShiftRight<23>(hn::Add(magnitude, hn::Set(du, 0x00400000u)));
    const auto place =
        hn::Sub(hn::BitCast(di, rounded), hn::Set(di, static_cast<int32_t>(top - kPowers)));
    const auto held =
        hn::Min(hn::Max(place, hn::Set(di, 1)), hn::Set(di, static_cast<int32_t>(kPowers)));
    const auto least = hn::Set(di, static_cast<int32_t>((top - kPowers) << 23));
    const auto is_zero = hn::Lt(hn::BitCast(di, magnitude), least);
    return hn::Or(sign, hn::BitCast(du, hn::IfThenElse(is_zero, hn::Zero(di), held)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<Bits<D>> code, BodyState top) {
    const Bits<D> du;
    const float one = is_poisoned(top) ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
    const auto place = hn::And(code, hn::Set(du, 7u));
    const auto power = hn::ShiftLeft<23>(hn::Add(place, hn::Set(du, (top - kPowers) & 255)));
    const auto magnitude = hn::IfThenElse(hn::Eq(place, hn::Zero(du)), hn::Zero(du), power);
    const auto sign = hn::ShiftLeft<31>(hn::ShiftRight<3>(code));
    return hn::Mul(hn::BitCast(d, hn::Or(magnitude, sign)), hn::Set(d, one));
  }
};

CodecKernels power_kernels() { return kernels_of<PowerBody>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(power_kernels);

CodecFamily e3m0_family() {
  return {"e3m0",
          1,
          {256},
          check_block,
          [](const CodecNumbers& n, uint64_t count) { return block_bytes(count, n.block, 1, 4); },
          [](const CodecNumbers&) -> CodecFacts {
            // Below 1.5 * 2^127 the largest power is a float; the least one is 2^-6 of it, and it
            // is at most 4/3 of the largest magnitude.
            constexpr float kMost = 0x1.7FFFFEp127f;
            return {1.0f / 3 * (1 + 0x1p-22f),
                    1.0f / 96,
                    0x1p-126f,
                    std::numeric_limits<float>::infinity(),
                    kMost,
                    kMost};
          },
          [] { return HWY_DYNAMIC_DISPATCH(power_kernels)(); },
          {0.36, 0.17}};
}

}  // namespace tutti::codecs
#endif
