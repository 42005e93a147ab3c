#include "src/schedule/verify_geometry.h"

#include <algorithm>
#include <numeric>

#include "src/schedule/text.h"

namespace tutti::schedule::verifier {
namespace {

constexpr uint64_t kMaxUnit = 1ull << 44;  // times 2^16 ranks stays far inside 64 bits

using Wide = unsigned __int128;

Status check_partition(const char* name, const Partition& cut) {
  const std::string where = std::string("the ") + name + " partition ";
  if (cut.blocks >= 1u << 30) return Status::invalid_argument(where + "has too many blocks");
  if (cut.bounds.empty()) return {};
  if (cut.bounds.size() != size_t{cut.blocks} + 1) {
    return Status::invalid_argument(where + "needs one boundary more than blocks");
  }
  for (size_t i = 0; i < cut.bounds.size(); ++i) {
    const Fraction x = cut.bounds[i];
    if (x.den == 0 || x.num > x.den) {
      return Status::invalid_argument(where + "has a boundary outside [0, 1]");
    }
    if (i == 0) continue;
    const Fraction before = cut.bounds[i - 1];
    if (Wide{before.num} * x.den > Wide{x.num} * before.den) {
      return Status::invalid_argument(
          where + "has a boundary before the one it follows: " + print(before) + ", " + print(x));
    }
  }
  if (cut.bounds.front().num != 0 || cut.bounds.back().num != cut.bounds.back().den) {
    return Status::invalid_argument(where + "does not reach from 0 to 1");
  }
  return {};
}

// The least unit in which every boundary of `counts` counts cut by `cut` is whole; 0 if it is too
// fine.
uint64_t unit_of(const Partition& cut, uint64_t counts, uint64_t unit) {
  const auto include = [&](uint64_t den) {
    const uint64_t whole = den / std::gcd(den, counts);
    const Wide product = Wide{unit} / std::gcd(unit, whole) * whole;
    unit = product > kMaxUnit ? 0 : static_cast<uint64_t>(product);
  };
  if (cut.bounds.empty()) {
    if (cut.blocks != 0) include(cut.blocks);
    return unit;
  }
  for (Fraction bound : cut.bounds) {
    if (unit != 0) include(bound.den / std::gcd(bound.num, bound.den));
  }
  return unit;
}

uint64_t position_of(const Partition& cut, uint32_t index, uint64_t whole) {
  const bool equal = cut.bounds.empty();
  const Fraction x = equal ? Fraction{index, cut.blocks} : cut.bounds[index];
  return static_cast<uint64_t>(Wide{whole} * x.num / x.den);
}

}  // namespace

uint32_t input_counts(const Shape& shape) {
  return static_cast<uint32_t>(input_elements(shape, shape.root, 1));
}

uint32_t output_counts(const Shape& shape) {
  return static_cast<uint32_t>(output_elements(shape, shape.root, 1));
}

Result<Geometry> Geometry::of(const Shape& shape) {
  if (Status s = check_partition("input", shape.input); !s.ok()) return s;
  if (Status s = check_partition("output", shape.output); !s.ok()) return s;
  const Partition* cuts[2] = {&shape.input, &shape.output};
  const uint32_t counts[2] = {input_counts(shape), output_counts(shape)};
  Geometry result;
  uint64_t blocks = 0;
  for (int space = 0; space < 2; ++space) {
    blocks += cuts[space]->blocks;
    if (counts[space] == 0 && cuts[space]->blocks != 0) {
      return Status::invalid_argument("a barrier has no blocks");
    }
    if (counts[space] == 0) continue;
    result.unit_ = unit_of(*cuts[space], counts[space], result.unit_);
    if (result.unit_ == 0) return Status::unsupported("the block boundaries are too fine");
  }
  if (blocks > kMaxBlocks) return Status::unsupported("too many blocks to verify");

  std::vector<uint64_t>& residues = result.residues_;
  residues.push_back(0);
  for (int space = 0; space < 2; ++space) {
    for (uint32_t i = 0; i < cuts[space]->blocks; ++i) {
      residues.push_back(position_of(*cuts[space], i, counts[space] * result.unit_) % result.unit_);
    }
  }
  std::ranges::sort(residues);
  residues.erase(std::unique(residues.begin(), residues.end()), residues.end());
  residues.push_back(result.unit_);

  const uint64_t per_count = result.atoms_per_count();
  for (int space = 0; space < 2; ++space) {
    if (counts[space] * per_count > kMaxAtoms)
      return Status::unsupported("too many blocks to verify");
    result.atoms_[space] = static_cast<uint32_t>(counts[space] * per_count);
    result.place_blocks(space, *cuts[space], counts[space]);
  }
  return result;
}

void Geometry::place_blocks(int space, const Partition& cut, uint32_t counts) {
  const uint64_t per_count = atoms_per_count();
  uint64_t begin = 0;
  uint32_t first = 0;
  for (uint32_t i = 0; i < cut.blocks; ++i) {
    const uint64_t end = position_of(cut, i + 1, counts * unit_);
    const auto residue = std::ranges::lower_bound(residues_, end % unit_) - residues_.begin();
    const auto last =
        static_cast<uint32_t>(end / unit_ * per_count + static_cast<uint64_t>(residue));
    regions_[space].push_back({first, last - first, static_cast<uint32_t>(first % per_count)});
    widths_[space].push_back(end - begin);
    blocks_are_atoms_ &= last - first <= 1;
    begin = end;
    first = last;
  }
}

std::string Geometry::interval(uint32_t atom, uint32_t atoms) const {
  const uint64_t whole = position(atoms);
  return "[" + print(Fraction::of(position(atom), whole)) + ", " +
         print(Fraction::of(position(uint64_t{atom} + 1), whole)) + ")";
}

}  // namespace tutti::schedule::verifier
