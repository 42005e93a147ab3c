#include "src/plan/verify_plan_value.h"

#include <algorithm>
#include <utility>

namespace tutti::plan::verifier {

Values::Values(size_t most_terms) : most_terms_(most_terms) { of({}); }

ValueId Values::of(Value value) {
  const auto [place, is_new] = ids_.emplace(std::move(value), static_cast<ValueId>(values_.size()));
  if (is_new) values_.push_back(&place->first);
  return place->second;
}

ValueId Values::shift(ValueId id, int64_t by) {
  if (id == kUndefined || by == 0) return id;
  const uint64_t key = uint64_t{id} << 32 | static_cast<uint32_t>(by);  // of plans < 2 GiB
  const auto known = shifted_.find(key);
  if (known != shifted_.end()) return known->second;
  Value moved = (*this)[id];
  for (Term& term : moved.terms) term.delta += by;
  return shifted_[key] = of(std::move(moved));
}

ValueId Values::scale(ValueId id) {
  if (id == kUndefined) return id;
  Value scaled = (*this)[id];
  for (Term& term : scaled.terms) ++term.scaled;
  return of(std::move(scaled));
}

ValueId Values::divide(ValueId id) {
  if (id == kUndefined) return id;
  Value divided = (*this)[id];
  ++divided.divided;
  return of(std::move(divided));
}

ValueId Values::fold(std::span<const ValueId> sources) {
  if (sources.size() == 1) return sources[0];
  Value folded;
  for (ValueId id : sources) {
    if (id == kUndefined) return kUndefined;
    const Value& source = (*this)[id];
    folded.terms.insert(folded.terms.end(), source.terms.begin(), source.terms.end());
    folded.divided = static_cast<uint8_t>(folded.divided + source.divided);
  }
  if (folded.terms.size() > most_terms_) return kUndefined;
  std::sort(folded.terms.begin(), folded.terms.end());
  return of(std::move(folded));
}

std::string Values::describe(ValueId id, uint64_t at) const {
  if (id == kUndefined) return "no defined value";
  const Value& value = (*this)[id];
  std::string text;
  for (const Term& term : value.terms) {
    if (!text.empty()) text += " + ";
    if (term.scaled > 0) text += "scale*";
    if (term.scaled > 1) text += std::to_string(term.scaled) + "*";
    text += "input of rank " + std::to_string(term.rank) + " byte " +
            std::to_string(static_cast<int64_t>(at) + term.delta) + " of call " +
            std::to_string(term.call);
  }
  if (value.divided > 0) text += ", divided " + std::to_string(value.divided) + " times";
  return text;
}

}  // namespace tutti::plan::verifier
