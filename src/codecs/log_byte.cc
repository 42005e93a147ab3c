// log_byte: a sign and seven bits of a logarithm.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/log_byte.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/coded_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

struct LogBody {
  struct BodyState {};
  static constexpr size_t kHeader = 0;
  static constexpr int kCodeBits = 8;

  template <class D>
  static HWY_INLINE hn::Vec<Bits<D>> code(D d, hn::Vec<D> v, BodyState) {
    const Bits<D> du;
    const hn::RebindToSigned<D> di;
    const auto magnitude = hn::BitCast(di, magnitudes(d, v));
    const auto wanted = hn::Sub(hn::ShiftRight<20>(magnitude), hn::Set(di, kFirstLogKey));
    const auto key = hn::Min(hn::Max(wanted, hn::Zero(di)), hn::Set(di, kLogKeys - 1));
    const auto first = hn::GatherIndex(du, kLogTables.fields, key);
    const auto border = hn::GatherIndex(d, kLogTables.borders, key);
    const auto is_next = hn::Ge(hn::BitCast(d, magnitude), border);
    const auto field =
        hn::Add(first, hn::IfThenElseZero(hn::RebindMask(du, is_next), hn::Set(du, 1u)));
    const auto sign = hn::ShiftLeft<7>(hn::ShiftRight<31>(hn::BitCast(du, v)));
    const auto code =
        hn::IfThenElse(hn::Eq(field, hn::Zero(du)), hn::Zero(du), hn::Or(field, sign));
    const auto is_finite = hn::Lt(magnitude, hn::Set(di, static_cast<int32_t>(kInfinityBits)));
    return hn::IfThenElse(hn::RebindMask(du, is_finite), code, hn::Set(du, kLogNan));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<Bits<D>> code, BodyState) {
    const hn::RebindToSigned<D> di;
    return hn::GatherIndex(d, kLogTables.values, hn::BitCast(di, code));
  }
};

CodecKernels log_kernels() { return kernels_of<LogBody>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(log_kernels);

CodecFamily log_byte_family() {
  return {"log_byte",
          0,
          {},
          check_no_numbers,
          [](const CodecNumbers&, uint64_t count) { return count; },
          [](const CodecNumbers&) -> CodecFacts {
            constexpr float kStep = 0.0644945f;  // exp(1 / 16) - 1, rounded up
            const float most = kLogTables.values[127];
            return {kStep,   0, kLogTables.values[1] / 2, most, std::numeric_limits<float>::max(),
                    2 * most};
          },
          [] { return HWY_DYNAMIC_DISPATCH(log_kernels)(); },
          {1.1, 0.35}};
}

}  // namespace tutti::codecs
#endif
