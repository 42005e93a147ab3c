// Where blocks lie: the only place that turns block indices into element offsets.
//
// A buffer of `total` elements is cut at exact fractions: boundary x lies at floor(total * x).
// Every level of a hierarchy uses this one rule, so cuts made by levels of different size coincide.
// In a v-collective the shares of a buffer (one for each rank) have sizes and places of their own,
// and the same fractions cut every share by itself.
//
// Units:   elements.
// Threads: values.
// Errors:  none; callers pass blocks that a Shape has.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/schedule.h"

namespace tutti::schedule {

/// num/den with num <= den, in lowest terms.
struct Fraction {
  uint64_t num = 0;
  uint64_t den = 1;

  static Fraction of(uint64_t num, uint64_t den);  // reduces
  bool operator==(const Fraction&) const = default;
};

Fraction sum(Fraction a, Fraction b);

/// How one buffer is cut into blocks: equal parts, or at given boundaries.
struct Partition {
  uint32_t blocks = 0;
  std::vector<Fraction>
      bounds;  // empty: block i is [i/blocks, (i+1)/blocks); else blocks+1 of them

  static Partition equal(uint32_t blocks) { return {blocks, {}}; }
  Fraction bound(uint32_t index) const {
    return bounds.empty() ? Fraction::of(index, blocks) : bounds[index];
  }
  bool operator==(const Partition&) const = default;
};

/// The facts about a collective that all ranks know before any count: the same on every rank.
struct Shape {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;  // of a rooted collective
  uint16_t lanes = 1;
  Partition input;
  Partition output;
  bool operator==(const Shape&) const = default;
};

/// Elements of the whole input (output) buffer of `rank` for a call with `count`: 0 if the rank has
/// none, else count or ranks*count (Traits).
uint64_t input_elements(const Shape& shape, int rank, uint64_t count);
uint64_t output_elements(const Shape& shape, int rank, uint64_t count);

inline bool has_input(const Shape& shape, int rank) {
  return traits_of(shape.collective).input.held_by(rank, shape.root);
}
inline bool has_output(const Shape& shape, int rank) {
  return traits_of(shape.collective).output.held_by(rank, shape.root);
}
/// Only then the rank's call can be in place.
inline bool has_both(const Shape& shape, int rank) {
  return has_input(shape, rank) && has_output(shape, rank);
}

struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// The shares of one rank's buffers in a v-collective. A buffer of parts has one for every rank,
/// another one has one.
struct CountVectors {
  std::vector<uint64_t> input, input_offsets;
  std::vector<uint64_t> output, output_offsets;
  /// No share of any rank is longer. Equal on all ranks, and what they have in place of a count.
  uint64_t longest = 0;
  /// By scratch block, where a size round told (single_assignment.h); else each has the size
  /// of its like block.
  std::vector<uint64_t> scratch;
};

/// A shape bound to a count, or to count vectors: offset and length of every input and output
/// block, computed, not tabulated. With a count it is the same on every rank, whether it has the
/// buffer or only scratch blocks like those of the buffer.
class Layout {
 public:
  Layout() = default;
  Layout(const Shape& shape, uint64_t count);
  Layout(const Shape& shape, const CountVectors& vectors);  // views both

  Extent extent(Block block) const;                              // input and output blocks only
  uint64_t length(const Schedule& schedule, Block block) const;  // scratch too

  /// No block is longer.
  uint64_t longest() const { return longest_; }

  /// In place: where the smaller buffer of `rank`, its part of the larger one, begins there.
  uint64_t part_offset(int rank) const;

 private:
  Extent extent_in_share(Block block, const Partition& cut) const;

  const Shape* shape_ = nullptr;
  const CountVectors* vectors_ = nullptr;
  uint64_t totals_[2] = {0, 0};
  uint64_t longest_ = 0;
};

/// Long blocks run in K slices: piece k of a block of `length` elements is [cut(k), cut(k+1)),
/// cut(k) = min(length, quantum * ceil(floor(length*k/K) / quantum)), quantum = elements per 64
/// bytes. Every block is cut, not the vector; empty pieces are skipped on both sides.
Extent piece(uint64_t length, uint64_t slice, uint64_t slices, uint64_t quantum);

}  // namespace tutti::schedule
