#include "src/plan/verify_plan_value.h"

#include <algorithm>
#include <utility>

#include "src/base/prng.h"

namespace tutti::plan::verifier {

Values::Values(size_t most_terms) : most_terms_(most_terms) { of({}); }

ValueId Values::of(Value value) {
  const auto [place, is_new] = ids_.emplace(std::move(value), static_cast<ValueId>(values_.size()));
  if (is_new) values_.push_back(&place->first);
  return place->second;
}

ValueId Values::shift(ValueId id, int64_t by) {
  if (id == kUndefined || by == 0) return id;
  const Shifted key{id, by};
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
    folded.history += source.rounded == 0 ? source.history : roundings_of(id);
  }
  if (folded.terms.size() > most_terms_) return kUndefined;
  std::sort(folded.terms.begin(), folded.terms.end());
  return of(std::move(folded));
}

ValueId Values::encode(ValueId id, uint8_t encoding) {
  if (id == kUndefined) return id;
  Value encoded = (*this)[id];
  const bool again = encoded.came_exact && encoded.rounded == encoding;
  if (encoded.rounded != 0 && !again) return kUndefined;
  encoded.rounded = encoded.code = encoding;
  encoded.came_exact = false;
  return of(std::move(encoded));
}

ValueId Values::decode(ValueId id) {
  if (id == kUndefined) return id;
  Value decoded = (*this)[id];
  decoded.code = 0;
  return of(std::move(decoded));
}

ValueId Values::by_exact_way(ValueId id) {
  if (id == kUndefined || (*this)[id].rounded == 0 || (*this)[id].code != 0) return id;
  Value came = (*this)[id];
  came.came_exact = true;
  return of(std::move(came));
}

ValueId Values::exact(ValueId id) {
  Value plain{(*this)[id].terms, (*this)[id].divided};
  return id == kUndefined ? id : of(std::move(plain));
}

// A sum of sums does not depend on the order in which they were folded.
uint64_t Values::roundings_of(ValueId id) const {
  const Value& value = (*this)[id];
  if (value.rounded == 0) return value.history;
  uint64_t terms = value.history;
  for (const Term& term : value.terms) {
    uint64_t state = uint64_t{term.rank} << 32 | uint64_t{term.call} << 8 | term.scaled;
    terms += splitmix64(state);
  }
  uint64_t state = terms ^ value.rounded;
  return splitmix64(state);
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
  if (value.code > 0) text += ", encoded by codec " + std::to_string(value.code);
  return text;
}

}  // namespace tutti::plan::verifier
