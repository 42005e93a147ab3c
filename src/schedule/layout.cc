#include "src/schedule/layout.h"

#include <algorithm>
#include <numeric>

namespace tutti::schedule {
namespace {

const BufferShape& buffer_of(const Shape& shape, Space space) {
  const Traits& traits = traits_of(shape.collective);
  return space == Space::kInput ? traits.input : traits.output;
}

// How many `count`s of elements the buffer holds, where there is one.
uint64_t counts_of(const Shape& shape, Space space) {
  const BufferShape& buffer = buffer_of(shape, space);
  if (buffer.holder == Holder::kNobody) return 0;
  return buffer.parts ? static_cast<uint64_t>(shape.ranks) : 1;
}

// floor(total * x) without overflow for any total and any x <= 1.
uint64_t boundary(uint64_t total, Fraction x) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(total) * x.num / x.den);
}

}  // namespace

Fraction Fraction::of(uint64_t num, uint64_t den) {
  if (den == 0) return {0, 1};
  const uint64_t divisor = std::gcd(num, den);
  return divisor == 0 ? Fraction{0, 1} : Fraction{num / divisor, den / divisor};
}

Fraction sum(Fraction a, Fraction b) {
  const uint64_t den = std::lcm(a.den, b.den);
  return Fraction::of(a.num * (den / a.den) + b.num * (den / b.den), den);
}

uint64_t input_elements(const Shape& shape, int rank, uint64_t count) {
  return has_input(shape, rank) ? counts_of(shape, Space::kInput) * count : 0;
}

uint64_t output_elements(const Shape& shape, int rank, uint64_t count) {
  return has_output(shape, rank) ? counts_of(shape, Space::kOutput) * count : 0;
}

Layout::Layout(const Shape& shape, uint64_t count) : shape_(&shape) {
  totals_[0] = counts_of(shape, Space::kInput) * count;
  totals_[1] = counts_of(shape, Space::kOutput) * count;
  const Partition* cuts[2] = {&shape.input, &shape.output};
  for (int space = 0; space < 2; ++space) {
    const Partition& cut = *cuts[space];
    if (cut.blocks == 0) continue;
    if (cut.bounds.empty()) {
      longest_ = std::max(longest_, (totals_[space] + cut.blocks - 1) / cut.blocks);
      continue;
    }
    for (uint32_t i = 0; i < cut.blocks; ++i) {
      const uint64_t low = boundary(totals_[space], cut.bound(i));
      longest_ = std::max(longest_, boundary(totals_[space], cut.bound(i + 1)) - low);
    }
  }
}

Layout::Layout(const Shape& shape, const CountVectors& vectors)
    : shape_(&shape), vectors_(&vectors) {
  // Rounding may favour a block of a shorter share by one element, hence up for every block.
  for (const Space space : {Space::kInput, Space::kOutput}) {
    const Partition& cut = space == Space::kInput ? shape.input : shape.output;
    const auto total = static_cast<unsigned __int128>(vectors.longest) * counts_of(shape, space);
    const uint32_t kinds = cut.bounds.empty() ? std::min(cut.blocks, 1u) : cut.blocks;
    for (uint32_t i = 0; i < kinds; ++i) {
      const Fraction low = cut.bound(i), high = cut.bound(i + 1);
      const uint64_t den = std::lcm(low.den, high.den);
      const uint64_t width = high.num * (den / high.den) - low.num * (den / low.den);
      longest_ = std::max(longest_, static_cast<uint64_t>((total * width + den - 1) / den));
    }
  }
}

uint64_t Layout::part_offset(int rank) const {
  const auto part = static_cast<size_t>(rank);
  const bool in_output = traits_of(shape_->collective).nests(Space::kInput);
  if (vectors_ != nullptr) {
    return (in_output ? vectors_->output_offsets : vectors_->input_offsets)[part];
  }
  return totals_[in_output ? 1 : 0] / static_cast<uint64_t>(shape_->ranks) * part;
}

// Boundary x of a buffer of m shares lies in share floor(m * x), at the rest's fraction of it.
Extent Layout::extent_in_share(Block block, const Partition& cut) const {
  const bool is_input = block.space() == Space::kInput;
  const Fraction low = cut.bound(block.index()), high = cut.bound(block.index() + 1);
  if (low == high) return {};
  const uint64_t shares = counts_of(*shape_, block.space());
  const uint64_t share = shares * low.num / low.den;
  const uint64_t count = (is_input ? vectors_->input : vectors_->output)[share];
  const uint64_t offset = (is_input ? vectors_->input_offsets : vectors_->output_offsets)[share];
  const auto within = [&](Fraction x) {
    const uint64_t rest = shares * x.num - share * x.den;  // <= x.den: a block keeps to its share
    return boundary(count, {rest, x.den});
  };
  return {offset + within(low), within(high) - within(low)};
}

Extent Layout::extent(Block block) const {
  const bool is_input = block.space() == Space::kInput;
  const Partition& cut = is_input ? shape_->input : shape_->output;
  if (vectors_ != nullptr) return extent_in_share(block, cut);
  const uint64_t total = totals_[is_input ? 0 : 1];
  // Of equal blocks the fraction is not reduced: lowering asks for the extent of every block.
  const auto bound = [&](uint32_t index) {
    return cut.bounds.empty() ? Fraction{index, cut.blocks} : cut.bounds[index];
  };
  const uint64_t begin = boundary(total, bound(block.index()));
  return {begin, boundary(total, bound(block.index() + 1)) - begin};
}

uint64_t Layout::length(const Schedule& schedule, Block block) const {
  const bool is_scratch = block.space() == Space::kScratch;
  if (is_scratch && vectors_ != nullptr && !vectors_->scratch.empty()) {
    return vectors_->scratch[block.index()];
  }
  return extent(is_scratch ? schedule.scratch[block.index()] : block).length;
}

Extent piece(uint64_t length, uint64_t slice, uint64_t slices, uint64_t quantum) {
  const auto cut = [&](uint64_t k) {
    const auto exact = static_cast<uint64_t>(static_cast<unsigned __int128>(length) * k / slices);
    return std::min(length, (exact + quantum - 1) / quantum * quantum);
  };
  const uint64_t low = cut(slice);
  return {low, cut(slice + 1) - low};
}

}  // namespace tutti::schedule
