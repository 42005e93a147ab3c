// Symbolic values: what a byte of memory holds, as the contributions that were folded into it.
#pragma once

#include <compare>
#include <cstdint>
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

  /// The value of byte `at` of the range, in words.
  std::string describe(ValueId id, uint64_t at) const;

 private:
  const Value& operator[](ValueId id) const { return *values_[id]; }

  size_t most_terms_;
  std::map<Value, ValueId> ids_;
  std::vector<const Value*> values_;
  std::unordered_map<uint64_t, ValueId> shifted_;
};

}  // namespace tutti::plan::verifier
