// none: the values themselves. Also what is done to values before they are encoded: the search for
// those that a codec cannot carry, and error feedback.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/none.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/coded_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

void copy_values(const CodecNumbers& /*numbers*/, std::span<const float> values, std::byte* out) {
  if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
}

template <Sink kSink>
bool take_values(const CodecNumbers& /*numbers*/, const std::byte* in, std::span<float> values) {
  if (values.empty()) return true;
  if constexpr (kSink == Sink::kStore) {
    std::memcpy(values.data(), in, values.size_bytes());
    return true;
  }
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;  // the encoded bytes have no alignment
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto* const place = reinterpret_cast<const uint8_t*>(in + i * sizeof(float));
    put<kSink>(d, hn::BitCast(d, hn::LoadU(d8, place)), values.data() + i);
  }
#endif
  for (; i < values.size(); ++i) {
    float value;
    std::memcpy(&value, in + i * sizeof(float), sizeof value);
    put<kSink>(value, values[i]);
  }
  return true;
}

CodecKernels none_kernels() {
  return {copy_values,
          {take_values<Sink::kStore>, take_values<Sink::kAdd>, take_values<Sink::kSubtract>},
          nullptr};
}

uint32_t largest_of(std::span<const float> values) { return largest_bits(values); }

/// Each sum beta * error + input goes to `sums`, which may be the errors.
void add_inputs(const Feedback& feedback, float* sums) {
  const hn::ScalableTag<float> d;
  const auto beta = hn::Set(d, feedback.beta);
  const size_t count = feedback.error.size();
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto kept = hn::Mul(beta, hn::LoadU(d, feedback.error.data() + i));
    hn::StoreU(hn::Add(kept, hn::LoadU(d, feedback.input.data() + i)), d, sums + i);
  }
  for (; i < count; ++i) sums[i] = feedback.beta * feedback.error[i] + feedback.input[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(none_kernels);
HWY_EXPORT(largest_of);
HWY_EXPORT(add_inputs);

namespace {

constexpr size_t kPiece = 4096;  // values that stay in the caches between two passes

bool passes(float value, float limit) { return magnitude_bits(value) <= magnitude_bits(limit); }

size_t first_beyond(std::span<const float> values, float limit) {
  size_t i = 0;
  while (i < values.size() && passes(values[i], limit)) ++i;
  return i;
}

}  // namespace

size_t find_beyond(std::span<const float> values, float limit) {
  if (limit != limit) return values.size();
  const uint32_t largest = HWY_DYNAMIC_DISPATCH(largest_of)(values);
  return largest <= magnitude_bits(limit) ? values.size() : first_beyond(values, limit);
}

size_t find_beyond(const Feedback& feedback, float limit) {
  float sums[kPiece];
  for (size_t i = 0; i < feedback.error.size(); i += kPiece) {
    const size_t count = std::min(kPiece, feedback.error.size() - i);
    const Feedback piece{feedback.error.subspan(i, count), feedback.input.subspan(i, count),
                         feedback.beta};
    HWY_DYNAMIC_DISPATCH(add_inputs)(piece, sums);
    const size_t found = find_beyond({sums, count}, limit);
    if (found < count) return i + found;
  }
  return feedback.error.size();
}

void encode_feedback(const Codec& codec, const Feedback& feedback, std::byte* encoded) {
  const CodecKernels kernels = codec.family->kernels();
  const size_t block = std::max<size_t>(codec.numbers.block, 8);
  const size_t whole = std::max<size_t>(1, kPiece / block) * block;
  for (size_t i = 0; i < feedback.error.size(); i += whole) {
    const size_t count = std::min(whole, feedback.error.size() - i);
    const auto error = feedback.error.subspan(i, count);
    HWY_DYNAMIC_DISPATCH(add_inputs)
    ({error, feedback.input.subspan(i, count), feedback.beta}, error.data());
    kernels.encode(codec.numbers, error, encoded);
    kernels.decode[static_cast<int>(Sink::kSubtract)](codec.numbers, encoded, error);
    encoded += codec.family->bytes(codec.numbers, count);
  }
}

CodecFamily none_family() {
  return {"none",
          0,
          {},
          check_no_numbers,
          [](const CodecNumbers&, uint64_t count) { return count * sizeof(float); },
          [](const CodecNumbers&) -> CodecFacts {
            const float infinity = std::numeric_limits<float>::infinity();
            return {0,
                    0,
                    0,
                    infinity,
                    std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::max()};
          },
          [] { return HWY_DYNAMIC_DISPATCH(none_kernels)(); },
          {0.15, 0.15}};
}

}  // namespace tutti::codecs
#endif
