// Inputs with a result that is known exactly, and the check of an output against it.
//
// Values are small integers or (prod) powers of two, chosen so that every partial result in every
// order is exact in the type: then the result does not depend on the schedule, and an output that
// differs in one bit is wrong. They are chosen so, too, that no operation swallows a fault:
//  - sum, prod, avg, mulsum: who counts at an index counts more than nothing (not 0, not a factor
//    of 1). The budget of a type (8-bit floats hold 3 or 4 bits) is shared between the ranks; where
//    it is too small for all, every k-th rank counts at an index, others at the next one.
//  - max, min: one rank alone decides an element, the next rank the next element.
//  - avg of integers: sums are multiples of the number of ranks, but for every fourth element,
//    which sees how the library cuts. (Over more than 127 ranks of int8 or 255 of uint8 it is 0,
//    whatever the input: there is nothing to see.)
// So with 64 elements and four for each rank, it shows in the result if a rank is missing, counts
// twice, stands for another one or gives what it had in an earlier call.
//
// The one exception from exactness: avg of floats over a number of ranks that is not a power of
// two. The library scales by 1/ranks, rounded, before it adds. So few ranks count at an index there
// that the roundings stay below what one of them weighs.
//
// Values repeat with a prime period, so that a block or slice in the wrong place is seen; the seed
// changes them from check to check, so that a stale result is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perf/collectives/collective.h"
#include "perf/collectives/datatypes.h"

namespace tutti::perf {

/// The result of a check: how many elements are wrong, and the first of them.
struct Mistakes {
  size_t count = 0;
  size_t element = 0;
  double expected = 0;
  double got = 0;

  void add(size_t where, double wanted, double found) {
    if (count++ > 0) return;
    element = where;
    expected = wanted;
    got = found;
  }
};

class Pattern {
 public:
  static constexpr size_t kPeriod = 1021;

  /// For a collective that does not reduce, pass tuttiMax: it has the widest range of values.
  Pattern(const DataType& type, tuttiRedOp_t op, int ranks, uint64_t seed);

  /// The input of `rank` at `index`, and the exact result over all ranks.
  double input(int rank, size_t index) const;
  /// The input's contribution to the result: in a scaled sum, its product with the rank's scalar.
  double contribution(int rank, size_t index) const;
  double reduced(size_t index) const;

  void fill_input(int rank, std::byte* buffer, size_t count) const;
  /// Something no result looks like.
  void poison(std::byte* buffer, size_t count) const;
  /// Where `output` differs from the blocks.
  Mistakes check(std::span<const Block> blocks, const std::byte* output) const;

 private:
  bool is_exact() const;
  double tolerance(size_t index) const;
  bool contributes(int rank, size_t index) const;
  uint64_t random_of(int rank, size_t index) const;
  double addend(int rank, size_t index) const;
  double factor(int rank, size_t index) const;
  double compared(int rank, size_t index) const;
  double of_bits(int rank, size_t index) const;
  uint64_t winning_bits(size_t index) const;
  std::vector<std::byte> table_of(int source) const;
  /// `begin` is the block's first element in the output.
  void check_exact(const Block& block, const std::byte* output, size_t begin,
                   Mistakes& found) const;
  void check_rounded(const Block& block, const std::byte* output, size_t begin,
                     Mistakes& found) const;

  DataType type_;
  tuttiRedOp_t op_;
  Logic logic_;
  int ranks_;
  uint64_t seed_;
  int unit_;              // of the addends
  int stride_ = 1;        // one rank in so many counts at an index
  int contributors_ = 1;  // at most so many ranks count at an index
  int amplitude_ = 1;     // the greatest magnitude, in units, or exponent of one of them
};

}  // namespace tutti::perf
