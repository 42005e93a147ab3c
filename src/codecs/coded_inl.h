// Encoders and decoders of codecs whose elements have codes of equal size, for one instruction set:
// in blocks, each behind a header, or without. A body says what a code is.
//
// Included once per instruction set, so the guard is Highway's toggle. A body has
//   kHeader           bytes before the codes of a block; 0: there are no blocks, and BodyState is
//   empty kCodeBits         4, 8 or 16 BodyState             what a header says, with
//   prepare(largest magnitude's bits), is_poisoned(),
//                     store() and load(), which is false for what no encoder writes
//   code(d, values, state), value(d, codes, state)   vectors; codes in 32-bit lanes
#if defined(TUTTI_CODECS_CODED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_CODECS_CODED_INL_H_
#undef TUTTI_CODECS_CODED_INL_H_
#else
#define TUTTI_CODECS_CODED_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "src/codecs/bodies.h"
#include "src/codecs/codec.h"
#include "src/types/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using types::HWY_NAMESPACE::Bits;

template <class D>
HWY_INLINE hn::Vec<Bits<D>> magnitudes(D /*d*/, hn::Vec<D> values) {
  const Bits<D> du;
  return hn::And(hn::BitCast(du, values), hn::Set(du, kMagnitudeMask));
}

/// The bits of the largest magnitude; NaN is larger than infinity.
HWY_INLINE uint32_t largest_bits(std::span<const float> values) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;  // magnitudes are not negative
  auto largest = hn::Zero(di);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, magnitudes(d, hn::LoadU(d, values.data() + i)));
    largest = hn::Max(largest, bits);
  }
  alignas(HWY_MAX_BYTES) int32_t lanes[hn::MaxLanes(di)];
  hn::Store(largest, di, lanes);
  auto most = static_cast<uint32_t>(*std::max_element(lanes, lanes + hn::Lanes(di)));
  for (; i < values.size(); ++i) most = std::max(most, magnitude_bits(values[i]));
  return most;
}

template <Sink kSink, class D>
HWY_INLINE void put(D d, hn::Vec<D> value, float* place) {
  if constexpr (kSink == Sink::kStore) {
    hn::StoreU(value, d, place);
  } else if constexpr (kSink == Sink::kAdd) {
    hn::StoreU(hn::Add(hn::LoadU(d, place), value), d, place);
  } else {
    hn::StoreU(hn::Sub(hn::LoadU(d, place), value), d, place);
  }
}

template <Sink kSink>
constexpr void put(float value, float& place) {
  if constexpr (kSink == Sink::kStore) {
    place = value;
  } else if constexpr (kSink == Sink::kAdd) {
    place += value;
  } else {
    place -= value;
  }
}

// ---- codes of whole bytes ----

template <class Body>
using CodeOf = std::conditional_t<Body::kCodeBits == 16, uint16_t, uint8_t>;

template <class Body>
HWY_INLINE void encode_codes(const typename Body::BodyState& state, std::span<const float> values,
                             std::byte* out) {
  using Code = CodeOf<Body>;
  const hn::ScalableTag<float> d;
  const hn::Rebind<Code, decltype(d)> dc;
  alignas(HWY_MAX_BYTES) Code codes[hn::MaxLanes(d)];
  const auto coded = [&](hn::Vec<decltype(d)> v)
                         HWY_ATTR { return hn::TruncateTo(dc, Body::code(d, v, state)); };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto code = coded(hn::LoadU(d, values.data() + i));
    if constexpr (hn::MaxLanes(d) > 1) {
      hn::StoreU(code, dc, reinterpret_cast<Code*>(out + i * sizeof(Code)));
    } else {
      hn::Store(code, dc, codes);
      std::memcpy(out + i * sizeof(Code), codes, sizeof(Code));
    }
  }
  if (i == values.size()) return;
  alignas(HWY_MAX_BYTES) float rest[hn::MaxLanes(d)] = {};
  std::copy(values.begin() + static_cast<ptrdiff_t>(i), values.end(), rest);
  hn::Store(coded(hn::Load(d, rest)), dc, codes);
  std::memcpy(out + i * sizeof(Code), codes, (values.size() - i) * sizeof(Code));
}

template <class Body, Sink kSink>
HWY_INLINE void decode_codes(const typename Body::BodyState& state, const std::byte* in,
                             std::span<float> values) {
  using Code = CodeOf<Body>;
  const hn::ScalableTag<float> d;
  const Bits<decltype(d)> du;
  const hn::Rebind<Code, decltype(d)> dc;
  alignas(HWY_MAX_BYTES) Code codes[hn::MaxLanes(d)] = {};
  const auto value = [&](hn::Vec<decltype(dc)> code)
                         HWY_ATTR { return Body::value(d, hn::PromoteTo(du, code), state); };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    if constexpr (hn::MaxLanes(d) > 1) {
      const auto* const place = reinterpret_cast<const Code*>(in + i * sizeof(Code));
      put<kSink>(d, value(hn::LoadU(dc, place)), values.data() + i);
    } else {
      std::memcpy(codes, in + i * sizeof(Code), sizeof(Code));
      put<kSink>(d, value(hn::Load(dc, codes)), values.data() + i);
    }
  }
  if (i == values.size()) return;
  alignas(HWY_MAX_BYTES) float rest[hn::MaxLanes(d)];
  std::memcpy(codes, in + i * sizeof(Code), (values.size() - i) * sizeof(Code));
  hn::Store(value(hn::Load(dc, codes)), d, rest);
  for (size_t k = i; k < values.size(); ++k) put<kSink>(rest[k - i], values[k]);
}

// ---- codes of half a byte: staged as bytes; the first of a pair is in the lower half ----

inline constexpr size_t kStaged = 256;

HWY_INLINE void pack_halves(const uint8_t* codes, size_t count, std::byte* out) {
  for (size_t i = 0; i + 1 < count; i += 2) {
    out[i / 2] = static_cast<std::byte>((codes[i] & 15) | codes[i + 1] << 4);
  }
  if (count % 2 != 0) out[count / 2] = static_cast<std::byte>(codes[count - 1] & 15);
}

HWY_INLINE void unpack_halves(const std::byte* in, size_t count, uint8_t* codes) {
  for (size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<uint8_t>(static_cast<uint8_t>(in[i / 2]) >> (i % 2 * 4) & 15);
  }
}

#if HWY_TARGET != HWY_SCALAR
// The same for whole stages: pairs of codes are lanes of 16 bits.
HWY_INLINE void pack_stage(const uint8_t* codes, std::byte* out) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  for (size_t i = 0; i < kStaged; i += 2 * hn::Lanes(d16)) {
    const auto pairs = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(codes + i));
    const auto low = hn::And(pairs, hn::Set(d16, uint16_t{0x000F}));
    const auto high = hn::And(hn::ShiftRight<4>(pairs), hn::Set(d16, uint16_t{0x00F0}));
    hn::StoreU(hn::TruncateTo(d8, hn::Or(low, high)), d8, reinterpret_cast<uint8_t*>(out + i / 2));
  }
}

HWY_INLINE void unpack_stage(const std::byte* in, uint8_t* codes) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  for (size_t i = 0; i < kStaged; i += 2 * hn::Lanes(d16)) {
    const auto halves = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(in + i / 2));
    const auto wide = hn::PromoteTo(d16, halves);
    const auto low = hn::And(wide, hn::Set(d16, uint16_t{0x000F}));
    const auto high = hn::And(hn::ShiftLeft<4>(wide), hn::Set(d16, uint16_t{0x0F00}));
    hn::StoreU(hn::Or(low, high), d16, reinterpret_cast<uint16_t*>(codes + i));
  }
}
#else
HWY_INLINE void pack_stage(const uint8_t* codes, std::byte* out) {
  pack_halves(codes, kStaged, out);
}
HWY_INLINE void unpack_stage(const std::byte* in, uint8_t* codes) {
  unpack_halves(in, kStaged, codes);
}
#endif

template <class Body>
HWY_INLINE void encode_run(const typename Body::BodyState& state, std::span<const float> values,
                           std::byte* out) {
  if constexpr (Body::kCodeBits != 4) {
    encode_codes<Body>(state, values, out);
  } else {
    alignas(HWY_MAX_BYTES) uint8_t codes[kStaged];
    for (size_t i = 0; i < values.size(); i += kStaged) {
      const size_t count = std::min(kStaged, values.size() - i);
      encode_codes<Body>(state, values.subspan(i, count), reinterpret_cast<std::byte*>(codes));
      count == kStaged ? pack_stage(codes, out + i / 2) : pack_halves(codes, count, out + i / 2);
    }
  }
}

template <class Body, Sink kSink>
HWY_INLINE void decode_run(const typename Body::BodyState& state, const std::byte* in,
                           std::span<float> values) {
  if constexpr (Body::kCodeBits != 4) {
    decode_codes<Body, kSink>(state, in, values);
  } else {
    alignas(HWY_MAX_BYTES) uint8_t codes[kStaged];
    for (size_t i = 0; i < values.size(); i += kStaged) {
      const size_t count = std::min(kStaged, values.size() - i);
      count == kStaged ? unpack_stage(in + i / 2, codes) : unpack_halves(in + i / 2, count, codes);
      decode_codes<Body, kSink>(state, reinterpret_cast<const std::byte*>(codes),
                                values.subspan(i, count));
    }
  }
}

// ---- arrays ----

/// run(state, index of the first value, values, out) writes the codes of one block.
template <class Body, class Run>
HWY_INLINE void encode_blocks(const CodecNumbers& numbers, std::span<const float> values,
                              std::byte* out, const Run& run) {
  for (size_t i = 0; i < values.size(); i += numbers.block) {
    const auto block = values.subspan(i, std::min<size_t>(numbers.block, values.size() - i));
    const auto state = Body::prepare(largest_bits(block));
    Body::store(state, out);
    out += Body::kHeader;
    const size_t bytes = (block.size() * Body::kCodeBits + 7) / 8;
    if (Body::is_poisoned(state)) {
      std::memset(out, 0, bytes);
    } else {
      run(state, i, block, out);
    }
    out += bytes;
  }
}

template <class Body>
HWY_NOINLINE void encode_all(const CodecNumbers& numbers, std::span<const float> values,
                             std::byte* out) {
  if constexpr (Body::kHeader == 0) {
    encode_run<Body>({}, values, out);
  } else {
    using BodyState = typename Body::BodyState;
    encode_blocks<Body>(numbers, values, out,
                        [](const BodyState& state, size_t, std::span<const float> block,
                           std::byte* to) HWY_ATTR { encode_run<Body>(state, block, to); });
  }
}

template <class Body, Sink kSink>
HWY_NOINLINE bool decode_all(const CodecNumbers& numbers, const std::byte* in,
                             std::span<float> values) {
  if constexpr (Body::kHeader == 0) {
    decode_run<Body, kSink>({}, in, values);
  } else {
    for (size_t i = 0; i < values.size(); i += numbers.block) {
      const auto block = values.subspan(i, std::min<size_t>(numbers.block, values.size() - i));
      typename Body::BodyState state{};
      if (!Body::load(state, in)) return false;
      decode_run<Body, kSink>(state, in + Body::kHeader, block);
      in += Body::kHeader + (block.size() * Body::kCodeBits + 7) / 8;
    }
  }
  return true;
}

template <class Body>
CodecKernels kernels_of() {
  return {encode_all<Body>,
          {decode_all<Body, Sink::kStore>, decode_all<Body, Sink::kAdd>,
           decode_all<Body, Sink::kSubtract>},
          nullptr};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#endif  // per target
