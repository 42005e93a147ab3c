// Blocks of whole numbers of 8 or 4 bits, times a scale.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/whole_numbers.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/coded_inl.h"
#include "src/codecs/scale.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

template <int kBits>
struct WholeNumberBody {
  using BodyState = float;  // the scale
  static constexpr size_t kHeader = sizeof(BodyState);
  static constexpr int kCodeBits = kBits;
  static constexpr int kLevels = (1 << (kBits - 1)) - 1;

  static BodyState prepare(uint32_t largest) { return scale_of(largest, kLevels); }
  static bool is_poisoned(BodyState scale) { return scale != scale; }
  static void store(BodyState scale, std::byte* out) { store_scale(scale, out); }
  static bool load(BodyState& scale, const std::byte* in) { return load_scale(scale, in); }

  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> code(D d, hn::Vec<D> v, BodyState scale) {
    const Bits<D> du;
    const auto most = hn::Set(d, static_cast<float>(kLevels));
    const auto exact = hn::Div(v, hn::Set(d, scale));
    const auto held = hn::Min(hn::Max(exact, hn::Neg(most)), most);
    return hn::BitCast(du, hn::NearestInt(held));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<Bits<D>> code, BodyState scale) {
    const hn::RebindToSigned<D> di;
    const auto raised = hn::BitCast(di, hn::ShiftLeft<32 - kBits>(code));
    return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<32 - kBits>(raised)), hn::Set(d, scale));
  }
};

/// Values in units of the scale, moved by a draw each, are rounded to nearest.
template <class Body>
void encode_by_draws(const CodecNumbers& numbers, std::span<const float> values, const Draws& draws,
                     std::byte* out) {
  const auto run = [&](float scale, size_t first, std::span<const float> block,
                       std::byte* to) HWY_ATTR {
    float moved[kStaged];
    for (size_t i = 0; i < block.size(); i += kStaged) {
      const size_t count = std::min(kStaged, block.size() - i);
      for (size_t k = 0; k < count; ++k) {
        moved[k] = block[i + k] / scale + dither_of(draws.key, draws.first + first + i + k);
      }
      encode_run<Body>(1.0f, std::span<const float>(moved, count), to + i * Body::kCodeBits / 8);
    }
  };
  encode_blocks<Body>(numbers, values, out, run);
}

template <class Body>
CodecKernels kernels_with_draws() {
  CodecKernels kernels = kernels_of<Body>();
  kernels.stochastic = encode_by_draws<Body>;
  return kernels;
}

CodecKernels int8_kernels() { return kernels_with_draws<WholeNumberBody<8>>(); }
CodecKernels int4_kernels() { return kernels_with_draws<WholeNumberBody<4>>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(int8_kernels);
HWY_EXPORT(int4_kernels);

CodecFamily int8_block_family() {
  return {"int8_block",
          1,
          {256},
          check_block,
          [](const CodecNumbers& n, uint64_t count) { return block_bytes(count, n.block, 4, 8); },
          [](const CodecNumbers&) { return facts_of_levels(127); },
          [] { return HWY_DYNAMIC_DISPATCH(int8_kernels)(); },
          {0.36, 0.16}};
}

CodecFamily int4_block_family() {
  return {"int4_block",
          1,
          {256},
          check_block,
          [](const CodecNumbers& n, uint64_t count) { return block_bytes(count, n.block, 4, 4); },
          [](const CodecNumbers&) { return facts_of_levels(7); },
          [] { return HWY_DYNAMIC_DISPATCH(int4_kernels)(); },
          {0.4, 0.16}};
}

}  // namespace tutti::codecs
#endif
