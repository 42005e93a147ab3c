// top_k: of each tile the largest magnitudes, as indices in ascending order and whole numbers times
// a scale. A tile is the scale, a row of indices, and a row of numbers.
#include "src/codecs/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/codecs/top_k.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target
// Behind it, what is included once per target.
#include "src/codecs/bit_row.h"
#include "src/codecs/coded_inl.h"
#include "src/codecs/scale.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::codecs {
namespace HWY_NAMESPACE {

/// The number of magnitudes whose bits are `least` or more.
HWY_INLINE size_t count_from(std::span<const float> tile, uint32_t least) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto below = hn::Set(di, static_cast<int32_t>(least) - 1);
  auto counts = hn::Zero(di);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= tile.size(); i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, magnitudes(d, hn::LoadU(d, tile.data() + i)));
    counts = hn::Sub(counts, hn::VecFromMask(di, hn::Gt(bits, below)));
  }
  alignas(HWY_MAX_BYTES) int32_t lanes[hn::MaxLanes(di)];
  hn::Store(counts, di, lanes);
  size_t count = 0;
  for (size_t lane = 0; lane < hn::Lanes(di); ++lane) count += static_cast<size_t>(lanes[lane]);
  for (; i < tile.size(); ++i) count += magnitude_bits(tile[i]) >= least;
  return count;
}

/// The bits of the magnitude at place `kept`, the largest one being at place 1: bit by bit.
HWY_INLINE uint32_t threshold_of(std::span<const float> tile, size_t kept) {
  uint32_t threshold = 0;
  for (uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
    if (count_from(tile, threshold | bit) >= kept) threshold |= bit;
  }
  return threshold;
}

struct TileForm {
  size_t kept;
  uint32_t index_bits, value_bits;
  size_t levels_at() const { return sizeof(float) + row_bytes(kept, index_bits); }
  size_t bytes() const { return levels_at() + row_bytes(kept, value_bits); }
  int levels() const { return (1 << (value_bits - 1)) - 1; }
};

TileForm form_of(const CodecNumbers& numbers, size_t tile) {
  return {std::min<size_t>(numbers.kept, tile), index_bits_of(numbers.block), numbers.bits};
}

void encode_tile(const TileForm& form, std::span<const float> tile, std::byte* out) {
  const float scale = scale_of(largest_bits(tile), form.levels());
  store_scale(scale, out);
  BitWriter indices(out + sizeof scale), levels(out + form.levels_at());
  const uint32_t threshold = threshold_of(tile, form.kept);
  const uint32_t mask = (1u << form.value_bits) - 1;
  // Magnitudes equal to the threshold fill what larger ones leave, from the lowest index on.
  size_t equals = form.kept - count_from(tile, threshold + 1);
  size_t count = 0;
  for (uint32_t i = 0; count < form.kept; ++i) {
    const uint32_t magnitude = magnitude_bits(tile[i]);
    if (magnitude < threshold || (magnitude == threshold && equals == 0)) continue;
    equals -= magnitude == threshold;
    const int32_t level = scale != scale ? 0 : level_of(tile[i], scale, form.levels());
    indices.put(i, form.index_bits);
    levels.put(static_cast<uint32_t>(level) & mask, form.value_bits);
    ++count;
  }
  indices.finish();
  levels.finish();
}

template <Sink kSink>
bool decode_tile(const TileForm& form, const std::byte* in, std::span<float> tile) {
  float scale = 0;
  if (!load_scale(scale, in)) return false;
  BitReader indices(in + sizeof scale), levels(in + form.levels_at());
  if constexpr (kSink == Sink::kStore) std::fill(tile.begin(), tile.end(), 0.0f);
  uint32_t free = 0;  // the least index that may come
  for (size_t k = 0; k < form.kept; ++k) {
    const uint32_t index = indices.take(form.index_bits);
    if (index < free || index >= tile.size()) return false;
    free = index + 1;
    const uint32_t raised = levels.take(form.value_bits) << (32 - form.value_bits);
    const int32_t level = static_cast<int32_t>(raised) >> (32 - form.value_bits);
    put<kSink>(static_cast<float>(level) * scale, tile[index]);
  }
  return true;
}

void encode_tiles(const CodecNumbers& numbers, std::span<const float> values, std::byte* out) {
  for (size_t i = 0; i < values.size(); i += numbers.block) {
    const auto tile = values.subspan(i, std::min<size_t>(numbers.block, values.size() - i));
    const TileForm form = form_of(numbers, tile.size());
    encode_tile(form, tile, out);
    out += form.bytes();
  }
}

template <Sink kSink>
bool decode_tiles(const CodecNumbers& numbers, const std::byte* in, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += numbers.block) {
    const auto tile = values.subspan(i, std::min<size_t>(numbers.block, values.size() - i));
    const TileForm form = form_of(numbers, tile.size());
    if (!decode_tile<kSink>(form, in, tile)) return false;
    in += form.bytes();
  }
  return true;
}

CodecKernels top_k_kernels() {
  return {encode_tiles,
          {decode_tiles<Sink::kStore>, decode_tiles<Sink::kAdd>, decode_tiles<Sink::kSubtract>},
          nullptr};
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::codecs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::codecs {

HWY_EXPORT(top_k_kernels);

namespace {

constexpr uint32_t kMostTile = 1u << 16;

Status check_top_k(const CodecNumbers& numbers) {
  if (numbers.block < 8 || numbers.block > kMostTile || numbers.block % 8 != 0) {
    return Status::invalid_argument("a tile of " + std::to_string(numbers.block) +
                                    " values; give a multiple of 8 from 8 to " +
                                    std::to_string(kMostTile));
  }
  if (numbers.kept < 1 || numbers.kept > numbers.block) {
    return Status::invalid_argument(std::to_string(numbers.kept) + " kept values of a tile of " +
                                    std::to_string(numbers.block) + "; give 1 to " +
                                    std::to_string(numbers.block));
  }
  if (numbers.bits < 2 || numbers.bits > 8) {
    return Status::invalid_argument(std::to_string(numbers.bits) +
                                    " bits of a kept value; give 2 to 8");
  }
  return {};
}

uint64_t top_k_bytes(const CodecNumbers& numbers, uint64_t count) {
  const auto tile_bytes = [&](uint64_t values) {
    const size_t kept = std::min<uint64_t>(numbers.kept, values);
    return sizeof(float) + row_bytes(kept, index_bits_of(numbers.block)) +
           row_bytes(kept, numbers.bits);
  };
  const uint64_t rest = count % numbers.block;
  return count / numbers.block * tile_bytes(numbers.block) + (rest == 0 ? 0 : tile_bytes(rest));
}

}  // namespace

CodecFamily top_k_family() {
  return {"top_k",
          3,
          {4096, 64, 4},
          check_top_k,
          top_k_bytes,
          [](const CodecNumbers& numbers) {
            CodecFacts facts = facts_of_levels((1 << (numbers.bits - 1)) - 1);
            facts.relative = numbers.kept == numbers.block ? 0.0f : 1.0f;
            return facts;
          },
          [] { return HWY_DYNAMIC_DISPATCH(top_k_kernels)(); },
          {2.1, 0.2},
          true};
}

}  // namespace tutti::codecs
#endif
