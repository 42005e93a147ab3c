// Inputs with a result that is known exactly, and the check of an output against it.
//
// The value at (rank, index) is a small integer (sums, avg, max, min and plain copies) or a signed
// power of two (prod), chosen so that every partial result in every order is exact in the type:
// then the result does not depend on the schedule, and an output that differs in one bit is wrong.
// The budget of a type (8-bit floats hold 3 or 4 bits) is shared between the ranks; where it is
// smaller than the number of ranks, only every k-th rank contributes to an element, another set for
// each index.
//
// The one exception: avg of floats over a number of ranks that is not a power of two. The library
// scales by 1/ranks, rounded, before it adds; the tolerance is (ranks + 1) * epsilon * sum(|input|)
// / ranks, plus one smallest subnormal per rank.
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

/// What a check found: how many elements are wrong, and the first of them.
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
  Pattern(const DataType& type, tuttiRedOp_t op, int ranks, uint64_t seed)
      : type_(type), op_(op), ranks_(ranks), seed_(seed) {}

  /// The input of `rank` at `index`, and the exact result over all ranks.
  double input(int rank, size_t index) const;
  /// What the input counts in the result: in a scaled sum, its product with the rank's scalar.
  double contribution(int rank, size_t index) const;
  double reduced(size_t index) const;

  void fill_input(int rank, std::byte* buffer, size_t count) const;
  /// Something no result looks like.
  void poison(std::byte* buffer, size_t count) const;
  /// Where `output` differs from the blocks.
  Mistakes check(std::span<const Block> blocks, const std::byte* output) const;

 private:
  bool is_exact() const;
  int addends_budget() const;
  double tolerance(size_t index) const;
  bool contributes(int rank, size_t index, int budget) const;
  double addend(int rank, size_t index, uint64_t random) const;
  double factor(int rank, size_t index, uint64_t random) const;
  std::vector<std::byte> table_of(int source) const;
  /// `begin` is the block's first element in the output.
  void check_exact(const Block& block, const std::byte* output, size_t begin,
                   Mistakes& found) const;
  void check_rounded(const Block& block, const std::byte* output, size_t begin,
                     Mistakes& found) const;

  DataType type_;
  tuttiRedOp_t op_;
  int ranks_;
  uint64_t seed_;
};

}  // namespace tutti::perf
