// Where elements are, for all counts at once.
//
// Positions are exact fractions of a count. All boundaries of a shape, modulo one count, are its
// residues; every buffer is cut at every residue of every count. The pieces are the *atoms*: no
// block of input, output or scratch cuts one, and neither does an in-place overlap, because a
// rank's share of a larger buffer begins at a whole number of counts. So an atom has one value at
// a time, and equality of elements is equality of atom numbers.
//
// Two blocks may be paired if they begin at the same residue and have as many atoms. Then they are
// of equal length for every count. The one pair that is so and is refused, two blocks of a whole
// number of counts that begin at different fractions of a count, would map an atom onto no atom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/layout.h"
#include "src/schedule/verify.h"

namespace tutti::schedule::verifier {

inline constexpr int kMaxRanks = 1 << 16;
inline constexpr uint32_t kMaxLanes = 1024;
inline constexpr uint64_t kMaxAtoms = 1u << 27;   // of all ranks
inline constexpr uint64_t kMaxBlocks = 1u << 21;  // of input and output together

/// Consecutive atoms of a buffer, or of one rank's memory.
struct AtomRange {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t phase = 0;  // the residue it begins at

  bool pairs(const AtomRange& other) const {
    return count == other.count && (count == 0 || phase == other.phase);
  }
  bool operator==(const AtomRange&) const = default;
};

class Geometry {
 public:
  static Result<Geometry> of(const Shape& shape);

  uint32_t atoms_per_count() const { return static_cast<uint32_t>(residues_.size() - 1); }
  uint32_t input_atoms() const { return atoms_[0]; }
  uint32_t output_atoms() const { return atoms_[1]; }

  /// An input or output block, in atoms of its buffer.
  const AtomRange& region(Block block) const {
    return regions_[static_cast<int>(block.space())][block.index()];
  }

  /// No block holds more than one atom; then two that overlap are the same interval.
  bool blocks_are_atoms() const { return blocks_are_atoms_; }

  /// The length of an input or output block in units of 1/unit() of a count.
  uint64_t unit() const { return unit_; }
  uint64_t width(Block block) const {
    return widths_[static_cast<int>(block.space())][block.index()];
  }

  /// "[1/4, 1/2)": atom `atom` as fractions of a buffer of `atoms` atoms.
  std::string interval(uint32_t atom, uint32_t atoms) const;

 private:
  uint64_t position(uint64_t atom) const {
    const uint64_t per_count = atoms_per_count();
    return atom / per_count * unit_ + residues_[atom % per_count];
  }

  void place_blocks(int space, const Partition& cut, uint32_t counts);

  uint64_t unit_ = 1;
  std::vector<uint64_t> residues_;     // sorted, the first is 0; and, last, unit_
  std::vector<AtomRange> regions_[2];  // input, output: per block
  std::vector<uint64_t> widths_[2];
  uint32_t atoms_[2] = {0, 0};
  bool blocks_are_atoms_ = true;
};

/// How many counts of elements the buffers of a shape hold (input: where there is one).
uint32_t input_counts(const Shape& shape);
uint32_t output_counts(const Shape& shape);

}  // namespace tutti::schedule::verifier
