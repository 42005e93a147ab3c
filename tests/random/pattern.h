// The contents of inputs: a function of call, rank and index, periodic with a prime number of
// elements, so that 64 MiB are written and compared by tables.
//
// Threads: immutable once made.
// Units:   indices in elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/random/job.h"

namespace tutti::random_calls {

class Pattern {
 public:
  /// No cut of a buffer is a multiple of it, so what lands in a wrong place is not equal.
  static constexpr uint64_t kPeriod = 4093;

  explicit Pattern(const Call& call) : call_(call) {}

  uint64_t bits(int rank, uint64_t index) const;
  /// The scalar by which a rank multiplies its input of a scaled sum.
  uint64_t scalar(int rank) const;

 private:
  uint64_t exact(int rank, uint64_t at, uint64_t chance) const;

  const Call& call_;
};

/// Bits of a transferred element; `ordinal` is the number of the transfer in its call.
uint64_t transfer_bits(const Call& call, size_t ordinal, uint64_t index);
/// The byte at `index` that access `ordinal` of the call puts.
std::byte put_byte(const Call& call, size_t ordinal, uint64_t index);
/// The byte at `offset` that a rank's part of a communicator's window holds from the beginning.
std::byte window_byte(uint32_t communicator, int rank, uint32_t window, uint64_t offset);

}  // namespace tutti::random_calls
