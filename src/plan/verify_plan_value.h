// Symbolic values: what a byte of memory holds, as the contributions that were folded into it, and
// which of the sums on the way were rounded to what an encoding can hold.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::plan::verifier {

/// One contribution. A value belongs to a range of bytes; byte x of the range holds byte x + delta
/// of the input of `rank` in call number `call`.
struct Term {
  int64_t delta = 0;
  uint16_t rank = 0;
  uint16_t call = 0;
  uint8_t scaled = 0;  // how many times
  auto operator<=>(const Term&) const = default;
};

struct Value {
  std::vector<Term> terms;  // sorted
  uint8_t divided = 0;      // how many times
  uint8_t rounded = 0;      // by which encoding, since the last fold; 0: not
  uint8_t code = 0;         // the encoding in which the bytes are; 0: they are elements
  bool came_exact = false;  // from another rank, as elements, since it was rounded
  uint64_t history = 0;     // which sums were rounded before they were folded into this one
  auto operator<=>(const Value&) const = default;
};

using ValueId = uint32_t;
inline constexpr ValueId kUndefined = 0;

/// All values of a run, each once.
class Values {
 public:
  /// Folds of more contributions than `most_terms` are undefined, so that no plan can make us grow.
  explicit Values(size_t most_terms);

  ValueId of(Value value);
  /// The same bytes counted from `by` bytes later: every delta grows by it.
  ValueId shift(ValueId id, int64_t by);
  ValueId scale(ValueId id);
  ValueId divide(ValueId id);
  ValueId fold(std::span<const ValueId> sources);

  /// Undefined for what has been encoded since its last fold. But what came by an exact way may be
  /// encoded as it was before, which changes no bit.
  ValueId encode(ValueId id, uint8_t encoding);
  ValueId decode(ValueId id);
  /// Elements that came from another rank.
  ValueId by_exact_way(ValueId id);
  uint8_t code_of(ValueId id) const { return (*this)[id].code; }
  /// The same contributions, whatever was rounded.
  ValueId exact(ValueId id);
  /// Equal for values of the same contributions that were rounded alike.
  uint64_t roundings_of(ValueId id) const;

  /// The value of byte `at` of the range, in words.
  std::string describe(ValueId id, uint64_t at) const;

 private:
  const Value& operator[](ValueId id) const { return *values_[id]; }

  size_t most_terms_;
  std::map<Value, ValueId> ids_;
  std::vector<const Value*> values_;
  struct Shifted {
    ValueId id;
    int64_t by;
    bool operator==(const Shifted&) const = default;
  };
  struct ShiftedHash {
    size_t operator()(const Shifted& one) const {
      return std::hash<uint64_t>()((uint64_t{one.id} << 32) ^ static_cast<uint64_t>(one.by));
    }
  };
  std::unordered_map<Shifted, ValueId, ShiftedHash> shifted_;
};

}  // namespace tutti::plan::verifier
