// Vectors of elements, for one instruction set: loads and stores, widening and narrowing.
//
// Included once per instruction set (see kernels_int.cc), so the guard is Highway's toggle.
// Every operation works on each element alone and is exact or rounds once in a fixed way: the bits
// of a result depend neither on the instruction set nor on where in a vector an element lies.
#if defined(TUTTI_TYPES_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_TYPES_VECTOR_INL_H_
#undef TUTTI_TYPES_VECTOR_INL_H_
#else
#define TUTTI_TYPES_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "src/types/element.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
constexpr size_t width_of(D d) {
  return hn::MaxLanes(d) * sizeof(hn::TFromD<D>);
}

// The bits of a float are worked on in unsigned lanes.
template <class D>
using Bits = hn::RebindToUnsigned<D>;

// ---- memory ----------------------------------------------------------------------------------

// A whole vector at a byte offset.
struct Piece {
  size_t offset;

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const std::byte* source) const {
    using Lane = hn::TFromD<D>;
    if constexpr (hn::MaxLanes(d) == 1) {  // Highway's scalar loads want aligned lanes
      Lane lane;
      std::memcpy(&lane, source + offset, sizeof(lane));
      return hn::Set(d, lane);
    } else {
      return hn::LoadU(d, reinterpret_cast<const Lane*>(source + offset));
    }
  }

  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> value, std::byte* target, bool streaming) const {
    auto* const place = reinterpret_cast<hn::TFromD<D>*>(target + offset);
    if constexpr (hn::MaxLanes(d) == 1) {
      const auto lane = hn::GetLane(value);
      std::memcpy(place, &lane, sizeof(lane));
    } else if (streaming && reinterpret_cast<uintptr_t>(place) % width_of(d) == 0) {
      hn::Stream(value, d, place);
    } else {
      hn::StoreU(value, d, place);
    }
  }
};

#if HWY_TARGET == HWY_AVX3

// Less than a vector. Elements that the mask leaves out are neither read nor written.
struct MaskedPiece {
  static constexpr size_t kMostBytes = 64;
  size_t offset;
  size_t bytes;  // 1 to kMostBytes

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const std::byte* source) const {
    const hn::Repartition<uint8_t, D> d8;
    const auto* const place = reinterpret_cast<const uint8_t*>(source + offset);
    return hn::BitCast(d, hn::MaskedLoad(hn::FirstN(d8, bytes), d8, place));
  }

  template <class D>
  HWY_INLINE void store(D /*d*/, hn::Vec<D> value, std::byte* target, bool /*streaming*/) const {
    const hn::Repartition<uint8_t, D> d8;
    auto* const place = reinterpret_cast<uint8_t*>(target + offset);
    hn::BlendedStore(hn::BitCast(d8, value), hn::FirstN(d8, bytes), d8, place);
  }
};
using ShortPiece = MaskedPiece;

#else

// A piece of at most 16 bytes. Two loads that overlap cover any length of a size class, without a
// loop and without touching a byte outside.
struct OverlappedPiece {
  static constexpr size_t kMostBytes = 16;
  size_t offset;
  size_t bytes;  // 1 to kMostBytes

  template <class Word>
  static HWY_INLINE uint64_t word_at(const std::byte* place) {
    Word word;
    std::memcpy(&word, place, sizeof(word));
    return word;
  }

  // The first word and the last one, moved to where it lies behind the first. The bytes that both
  // have are equal, so an "or" joins them.
  template <class Word>
  HWY_INLINE uint64_t joined(const std::byte* place) const {
    const size_t behind = bytes - sizeof(Word);
    return word_at<Word>(place) | word_at<Word>(place + behind) << (8 * behind);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const std::byte* source) const {
    const std::byte* const place = source + offset;
    uint64_t low, high = 0;
    if (bytes >= 8) {
      low = word_at<uint64_t>(place);
      // In two shifts, for a shift by all 64 bits is not defined.
      high = word_at<uint64_t>(place + bytes - 8) >> (4 * (16 - bytes)) >> (4 * (16 - bytes));
    } else if (bytes >= 4) {
      low = joined<uint32_t>(place);
    } else if (bytes >= 2) {
      low = joined<uint16_t>(place);
    } else {
      low = word_at<uint8_t>(place);
    }
    if constexpr (width_of(d) < 16) {
      return hn::Set(d, static_cast<hn::TFromD<D>>(low));
    } else {
      const hn::Repartition<uint64_t, D> d64;
      return hn::BitCast(d, hn::OddEven(hn::Set(d64, high), hn::Set(d64, low)));
    }
  }

  // Also two copies that overlap.
  template <size_t kBytes>
  HWY_INLINE void store_ends(const std::byte* value, std::byte* place) const {
    std::memcpy(place, value, kBytes);
    std::memcpy(place + bytes - kBytes, value + bytes - kBytes, kBytes);
  }

  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> value, std::byte* target, bool /*streaming*/) const {
    std::byte* const place = target + offset;
    alignas(16) std::byte spilled[16];
    hn::Store(value, d, reinterpret_cast<hn::TFromD<D>*>(spilled));
    if (bytes >= 8) return store_ends<8>(spilled, place);
    if (bytes >= 4) return store_ends<4>(spilled, place);
    if (bytes >= 2) return store_ends<2>(spilled, place);
    *place = spilled[0];
  }
};
using ShortPiece = OverlappedPiece;

#endif

// ---- one narrow float in each 32-bit lane ------------------------------------------------------

// Integer arithmetic moves the fields; a subnormal becomes normal by a subtraction that is exact.
// (A multiplication would be shorter, but its operand would be a subnormal float: slow on many
// processors, and zero where the program asked for denormals-are-zero.)
template <const FloatFormat& kFormat, class D>
HWY_INLINE hn::Vec<D> decode(D df, hn::Vec<Bits<D>> code) {
  constexpr uint32_t kRebias = uint32_t(127 - kFormat.bias()) << 23;
  constexpr uint32_t kExponent = ((1u << kFormat.exponent_bits) - 1) << 23;
  const Bits<D> du;
  const auto sign =
      hn::ShiftLeft<kFormat.sign_shift()>(hn::And(code, hn::Set(du, kFormat.sign_mask())));
  const auto magnitude =
      hn::ShiftLeft<kFormat.dropped_bits()>(hn::And(code, hn::Set(du, kFormat.magnitude_mask())));
  const auto exponent = hn::And(magnitude, hn::Set(du, kExponent));

  const auto one_up = hn::Set(du, kRebias + (1u << 23));
  const auto subnormal = hn::BitCast(
      du, hn::Sub(hn::BitCast(df, hn::Add(magnitude, one_up)), hn::BitCast(df, one_up)));
  auto value = hn::Add(magnitude, hn::Set(du, kRebias));
  value = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, value);
  if constexpr (kFormat.ieee) {
    const auto infinite = hn::Or(magnitude, hn::Set(du, 0x7F800000u));
    value = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, kExponent)), infinite, value);
  } else {
    constexpr uint32_t kNan = kFormat.nan_code << kFormat.dropped_bits();
    value = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, kNan)), hn::Set(du, 0x7FC00000u), value);
  }
  return hn::BitCast(df, hn::Or(value, sign));
}

// Rounds to nearest even: in integers for what becomes normal; for what becomes subnormal by adding
// a float so large that its last bit is the last bit of the result.
template <const FloatFormat& kFormat, class D>
HWY_INLINE hn::Vec<Bits<D>> encode(D df, hn::Vec<D> value) {
  constexpr int kDropped = kFormat.dropped_bits();
  constexpr uint32_t kRebias = uint32_t(127 - kFormat.bias()) << 23;
  constexpr uint32_t kOverflow = kRebias + (1u << (23 + kFormat.exponent_bits));
  const Bits<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, value);
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
  const auto magnitude = hn::Min(hn::Xor(bits, sign), hn::Set(du, kOverflow));

  const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1u));
  const auto nearly_half = hn::Set(du, (1u << (kDropped - 1)) - 1 - kRebias);
  const auto normal = hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, odd), nearly_half));
  const auto aligner = hn::Set(du, kRebias + (uint32_t(kDropped + 1) << 23));
  const auto subnormal = hn::Sub(
      hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, aligner))), aligner);

  const auto least_normal = hn::Set(di, static_cast<int32_t>(kRebias + (1u << 23)));
  const auto is_subnormal = hn::RebindMask(du, hn::Lt(hn::BitCast(di, magnitude), least_normal));
  auto code = hn::IfThenElse(is_subnormal, subnormal, normal);
  code = hn::Min(code, hn::Set(du, kFormat.max_code));
  code = hn::Or(code, hn::ShiftRight<kFormat.sign_shift()>(sign));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, kFormat.nan_code), code);
}

// Rounds each lane to its upper half. A NaN must be one that adding cannot carry out of.
template <class D>
HWY_INLINE hn::Vec<Bits<D>> rounded_to_upper_half(D /*df*/, hn::Vec<D> value) {
  const Bits<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFFu));
}

// Every NaN becomes the positive quiet NaN without payload. Which of two NaNs an addition returns
// depends on the processor, and on the order in which a compiler wrote the operands.
template <class D>
HWY_INLINE hn::Vec<D> with_one_nan(D d, hn::Vec<D> value) {
  using Limits = std::numeric_limits<hn::TFromD<D>>;
  return hn::IfThenElse(hn::IsNaN(value), hn::Set(d, Limits::quiet_NaN()), value);
}

// ---- whole vectors: memory form <-> what is folded ---------------------------------------------

template <DataType kType, class D>
using WideTag = hn::Repartition<typename Element<kType>::Wide, D>;

template <DataType kType, class D>
struct Wide {
  hn::Vec<WideTag<kType, D>> part[Element<kType>::kParts];
};

template <DataType kType>
inline constexpr auto kPartsOf = std::make_index_sequence<Element<kType>::kParts>();

// Processors with 256-bit vectors convert half precision themselves, just as decode and encode do,
// and every 8-bit float is exactly a half, up to a factor.
#define TUTTI_HAVE_F16C (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

#if TUTTI_HAVE_F16C
template <class D>
HWY_INLINE Wide<DataType::kFloat16, D> widen_halves(D d, hn::Vec<D> packed) {
  const hn::Repartition<hwy::float16_t, D> dh;
  const hn::Half<decltype(dh)> dhh;
  const WideTag<DataType::kFloat16, D> df;
  const auto halves = hn::BitCast(dh, packed);
  return {{hn::PromoteTo(df, hn::LowerHalf(dhh, halves)),
           hn::PromoteTo(df, hn::UpperHalf(dhh, halves))}};
}

template <class D, class V>
HWY_INLINE hn::Vec<D> narrow_halves(D d, V low, V high) {
  const hn::Repartition<uint16_t, D> du16;
  const hn::Half<decltype(du16)> du16h;
  const hn::Rebind<hwy::float16_t, decltype(du16h)> dhh;
  const auto low_half = hn::BitCast(du16h, hn::DemoteTo(dhh, low));
  const auto high_half = hn::BitCast(du16h, hn::DemoteTo(dhh, high));
  return hn::BitCast(d, hn::Combine(du16, high_half, low_half));
}

// A half with the fields of an E4M3 is too small by this, as the biases of their exponents differ.
inline constexpr float kE4M3Factor = 256;

// `bytes` holds one 8-bit float in the upper byte of each 16-bit lane.
template <DataType kType, class D>
HWY_INLINE Wide<DataType::kFloat16, D> widen_upper_bytes(D d, hn::Vec<D> bytes) {
  if constexpr (kType == DataType::kFloat8E5M2) {
    return widen_halves(d, bytes);  // the upper byte of a half
  } else {
    const hn::Repartition<uint16_t, D> d16;
    const WideTag<kType, D> df;
    const auto code = hn::BitCast(d16, bytes);
    const auto magnitude = hn::And(code, hn::Set(d16, uint16_t{0x7F00}));
    const auto is_nan = hn::Eq(magnitude, hn::Set(d16, uint16_t{0x7F00}));
    const auto moved =
        hn::IfThenElse(is_nan, hn::Set(d16, uint16_t{0x7E00}), hn::ShiftRight<1>(magnitude));
    const auto half = hn::Or(moved, hn::Xor(code, magnitude));
    const auto wide = widen_halves(d, hn::BitCast(d, half));
    const auto factor = hn::Set(df, kE4M3Factor);
    return {{hn::Mul(wide.part[0], factor), hn::Mul(wide.part[1], factor)}};
  }
}

template <DataType kType, class D>
HWY_INLINE Wide<kType, D> widen_bytes(D d, hn::Vec<D> packed) {
  const hn::Repartition<uint16_t, D> d16;
  const auto pairs = hn::BitCast(d16, packed);
  const auto even = hn::BitCast(d, hn::ShiftLeft<8>(pairs));
  const auto odd = hn::BitCast(d, hn::And(pairs, hn::Set(d16, uint16_t{0xFF00})));
  const auto wide_even = widen_upper_bytes<kType>(d, even);
  const auto wide_odd = widen_upper_bytes<kType>(d, odd);
  return {{wide_even.part[0], wide_even.part[1], wide_odd.part[0], wide_odd.part[1]}};
}

// Rounds to what an 8-bit format holds, saturating, by adding a number so large that the bits the
// format drops fall off the end. A NaN becomes the float whose conversion has the code for NaN.
template <DataType kType, class D>
HWY_INLINE hn::Vec<D> rounded_to_8_bits(D df, hn::Vec<D> value) {
  constexpr bool kIsE5M2 = kType == DataType::kFloat8E5M2;
  constexpr FloatFormat kFormat = Element<kType>::kFormat;
  constexpr int32_t kLeastNormal = (128 - kFormat.bias()) << 23;
  constexpr int32_t kRaise = (kFormat.dropped_bits() << 23) + (1 << 22);  // by 1.5: for both signs
  const hn::RebindToSigned<D> di;
  const auto most = hn::Set(df, kIsE5M2 ? 57344.0f : 448.0f);
  const auto clamped = hn::Min(hn::Max(value, hn::Neg(most)), most);
  const auto exponent = hn::And(hn::BitCast(di, clamped), hn::Set(di, 0x7F800000));
  const auto quantum = hn::Max(exponent, hn::Set(di, kLeastNormal));
  const auto aligner = hn::BitCast(df, hn::Add(quantum, hn::Set(di, kRaise)));
  const auto rounded = hn::CopySign(hn::Sub(hn::Add(clamped, aligner), aligner), clamped);
  const auto nan = hn::Set(df, kIsE5M2 ? std::numeric_limits<float>::quiet_NaN() : 480.0f);
  const auto result = hn::IfThenElse(hn::IsNaN(value), nan, rounded);
  return kIsE5M2 ? result : hn::Mul(result, hn::Set(df, 1 / kE4M3Factor));
}

// The inverse of widen_upper_bytes, for floats that rounded_to_8_bits returned.
template <DataType kType, class D, class V>
HWY_INLINE hn::Vec<D> narrow_to_upper_bytes(D d, V low, V high) {
  const auto half = narrow_halves(d, low, high);
  if constexpr (kType == DataType::kFloat8E5M2) {
    return half;
  } else {
    const auto sign = hn::And(half, hn::Set(d, 0x80008000u));
    return hn::Or(sign, hn::ShiftLeft<1>(hn::Xor(half, sign)));
  }
}

template <DataType kType, class D>
HWY_INLINE hn::Vec<D> narrow_bytes(D d, const Wide<kType, D>& wide) {
  const hn::Repartition<uint16_t, D> d16;
  const WideTag<kType, D> df;
  const auto even = narrow_to_upper_bytes<kType>(d, rounded_to_8_bits<kType>(df, wide.part[0]),
                                                 rounded_to_8_bits<kType>(df, wide.part[1]));
  const auto odd = narrow_to_upper_bytes<kType>(d, rounded_to_8_bits<kType>(df, wide.part[2]),
                                                rounded_to_8_bits<kType>(df, wide.part[3]));
  return hn::Or(hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(d16, even))), odd);
}
#endif  // TUTTI_HAVE_F16C

template <DataType kType, class D, size_t... kPart>
HWY_INLINE Wide<kType, D> widen_codes(D /*d*/, hn::Vec<D> packed, std::index_sequence<kPart...>) {
  constexpr int kBits = Element<kType>::kFormat.bits();
  const WideTag<kType, D> df;
  return {{decode<Element<kType>::kFormat>(df, hn::ShiftRight<kBits* int(kPart)>(packed))...}};
}

template <DataType kType, class D, size_t... kPart>
HWY_INLINE hn::Vec<D> narrow_codes(D d, const Wide<kType, D>& wide, std::index_sequence<kPart...>) {
  constexpr int kBits = Element<kType>::kFormat.bits();
  const WideTag<kType, D> df;
  auto packed = hn::Zero(d);
  ((packed = hn::Or(packed, hn::ShiftLeft<kBits* int(kPart)>(
                                encode<Element<kType>::kFormat>(df, wide.part[kPart])))),
   ...);
  return packed;
}

template <DataType kType, class D>
HWY_INLINE Wide<kType, D> widen(D d, hn::Vec<D> packed) {
  if constexpr (Element<kType>::kParts == 1) {
    return {{packed}};
  } else if constexpr (kType == DataType::kBfloat16) {
    const WideTag<kType, D> df;
    return {{hn::BitCast(df, hn::ShiftLeft<16>(packed)),
             hn::BitCast(df, hn::And(packed, hn::Set(d, 0xFFFF0000u)))}};
#if TUTTI_HAVE_F16C
  } else if constexpr (kType == DataType::kFloat16) {
    return widen_halves(d, packed);
  } else {
    return widen_bytes<kType>(d, packed);
  }
#else
  } else {
    return widen_codes<kType>(d, packed, kPartsOf<kType>);
  }
#endif
}

template <DataType kType, class D>
HWY_INLINE hn::Vec<D> narrow(D d, const Wide<kType, D>& wide) {
  if constexpr (std::is_integral_v<typename Element<kType>::Wide>) {
    return wide.part[0];
  } else if constexpr (Element<kType>::kParts == 1) {
    return with_one_nan(d, wide.part[0]);
  } else if constexpr (kType == DataType::kBfloat16) {
    const WideTag<kType, D> df;
    const auto even = rounded_to_upper_half(df, with_one_nan(df, wide.part[0]));
    const auto odd = rounded_to_upper_half(df, with_one_nan(df, wide.part[1]));
    return hn::Or(hn::ShiftRight<16>(even), hn::And(odd, hn::Set(d, 0xFFFF0000u)));
#if TUTTI_HAVE_F16C
  } else if constexpr (kType == DataType::kFloat16) {
    const WideTag<kType, D> df;
    return narrow_halves(d, with_one_nan(df, wide.part[0]), with_one_nan(df, wide.part[1]));
  } else {
    return narrow_bytes<kType>(d, wide);
  }
#else
  } else {
    return narrow_codes<kType>(d, wide, kPartsOf<kType>);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#endif  // per target
