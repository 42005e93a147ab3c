// Plans of v-collectives. They are keyed by their count vectors too, which a repeated call compares
// and does not hash.
#include <algorithm>

#include "src/comm/planner.h"

namespace tutti::comm {

// Where a peer's shares lie only that peer knows, so v-collectives are staged unless somebody has
// found that all inputs are laid out alike.
PlanKey EnginePlans::vector_key(const Request& request, uint64_t longest, bool in_place,
                                plan::Mode mode) {
  PlanKey key = key_of(request, in_place, {mode, false});
  key.count = longest;
  key.vectors = true;
  return key;
}

Result<const select::Candidate*> EnginePlans::choose_vectors(const Request& request,
                                                             uint64_t longest, bool in_place) {
  const PlanKey key = vector_key(request, longest, in_place, plan::Mode::kStaged);
  if (vector_choice_ && vector_choice_->key == key) return &vector_choice_->candidate;
  select::Query query = query_of(request, in_place);
  query.count = longest;
  Result<select::Candidate> chosen = choose(request, query);
  if (!chosen.ok()) return chosen.status();
  vector_choice_ = Choice{key, std::move(chosen).value()};
  return &vector_choice_->candidate;
}

Result<bool> EnginePlans::forwards(const Request& request, uint64_t longest, bool in_place) {
  Result<const select::Candidate*> chosen = choose_vectors(request, longest, in_place);
  if (!chosen.ok()) return chosen.status();
  return request.counts->is_private() && chosen.value()->algorithm->forwards;
}

Result<const Prepared*> EnginePlans::prepare_vectors(const Request& request, uint64_t longest,
                                                     bool in_place, std::span<const uint64_t> sizes,
                                                     plan::Mode mode) {
  const PlanKey key = vector_key(request, longest, in_place, mode);
  const auto fits = [&](const Prepared& prepared) {
    return prepared.key == key && same(prepared.counts.view(), *request.counts) &&
           std::ranges::equal(prepared.sizes, sizes);
  };
  if (last_vectors_ != nullptr && fits(*last_vectors_)) return last_vectors_;
  const uint64_t hash = (hash_of(*request.counts) ^ hash_of(key)) * 0x9e3779b97f4a7c15u;
  if (const Prepared* known = plans_.find(hash, fits)) return last_vectors_ = known;
  Result<std::unique_ptr<Prepared>> made = bind_vectors(request, key, in_place, sizes, mode);
  if (!made.ok()) return made.status();
  return last_vectors_ = keep(hash, std::move(made).value());
}

Result<std::unique_ptr<Prepared>> EnginePlans::bind_vectors(const Request& request,
                                                            const PlanKey& key, bool in_place,
                                                            std::span<const uint64_t> sizes,
                                                            plan::Mode mode) {
  const uint64_t longest = key.count;
  const Result<const select::Candidate*> chosen = choose_vectors(request, longest, in_place);
  if (!chosen.ok()) return chosen.status();
  const Result<plan::Match*> match = match_of(*chosen.value(), request, in_place, {mode, false});
  if (!match.ok()) return match.status();
  auto prepared = std::make_unique<Prepared>();
  prepared->key = key;
  prepared->counts = KeptCounts(*request.counts);
  prepared->sizes.assign(sizes.begin(), sizes.end());
  prepared->vectors = vectors_of(*request.counts, options_.rank, longest);
  prepared->vectors.scratch = prepared->sizes;
  plan::BindRequest bound{longest, request.type, folded_op(request), &prepared->vectors};
  bound.far_slices = chosen.value()->far_slices;
  prepared->plan = bind(*match.value(), bound);
  // The counts that every rank knows alike are signed; private ones have been compared pair by
  // pair.
  CountView shared;
  if (!request.counts->is_private()) {
    shared = {.ranks = request.counts->ranks, .send_counts = request.counts->public_counts()};
  }
  if (Status s = finish(*prepared, *chosen.value(), request, {hash_of(shared)}); !s.ok()) return s;
  if (engine_.calls != nullptr) {
    prepared->label = engine_.calls->label(request, prepared->plan.algorithm);
    engine_.calls->tell_choice(request, prepared->plan.algorithm);
  }
  return prepared;
}

Result<const Prepared*> EnginePlans::prepare_sizes(const Request& request, uint64_t longest,
                                                   bool in_place) {
  const PlanKey key = vector_key(request, longest, in_place, plan::Mode::kStaged);
  if (sizes_ != nullptr && sizes_->key == key) return sizes_.get();
  const Result<const select::Candidate*> chosen = choose_vectors(request, longest, in_place);
  if (!chosen.ok()) return chosen.status();
  select::Candidate exact = *chosen.value();
  exact.encodes = false;  // sizes are no sums of floats
  const Result<plan::Match*> match = match_of(exact, request, false, {});
  if (!match.ok()) return match.status();
  auto prepared = std::make_unique<Prepared>();
  prepared->key = key;
  prepared->plan = bind(*match.value(), {1, types::DataType::kUint64});
  prepared->sizes.resize(match.value()->schedule.scratch.size());
  if (Status s = finish(*prepared, *chosen.value(), request, {~uint64_t{0}}); !s.ok()) return s;
  sizes_ = std::move(prepared);
  return sizes_.get();
}

}  // namespace tutti::comm
