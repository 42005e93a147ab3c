// From a request to a plan that can run: select, match, bind, and the caches that make a repeated
// call two comparisons.
//
// Plans are keyed by what changes them and never by pointers. Threads: one at a time. Errors: a
// request no algorithm can run, or one that does not fit the staging ring.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/codecs/wire.h"
#include "src/comm/call_recorder.h"
#include "src/comm/plan_cache.h"
#include "src/comm/request.h"
#include "src/plan/bind.h"
#include "src/select/forced.h"
#include "src/select/model_file.h"
#include "src/select/refit.h"
#include "src/select/select.h"

namespace tutti::comm {

/// Shared places (plan/shared_places.h) of an engine that has moves for them. Equal on all ranks.
struct SharedPlaces {
  select::LinkModel link;                               // of the switch that folds
  std::function<bool(const schedule::Algorithm&)> can;  // select::Sharing
  std::function<bool(const Request&)> may;              // have them
  bool must = false;                                    // select::Sharing
};

/// An engine as plans for it are made. `algorithms` outlive the planner.
struct PlanEngine {
  plan::Engine engine = plan::Engine::kHost;  // that runs all lanes
  std::span<const schedule::Algorithm> algorithms;
  plan::Tuning tuning;
  select::Forces forced;  // by the settings
  // Whether the algorithms that users name in their options are this engine's; or theirs are the
  // host's, and this engine chooses by itself.
  bool takes_named = true;
  // Whether a call that may read its peers' memory does so only where that was measured to be
  // faster (EnginePlans::weigh).
  bool weighs_single_copy = false;
  uint32_t most_sources = types::kMaxSources;  // of a move, that the engine can fold
  std::optional<select::LinkModel> link;       // by which all ranks reach each other; none: levels
  // Of several levels: by which ranks of a host reach each other; none: as the model says.
  std::optional<select::LinkModel> near_link{};
  // Messages between hosts are those of devices, at such costs; none: they are the host's.
  std::optional<select::DeviceCosts> crossing{};
  CallRecorder* calls = nullptr;                // makes the labels; may be null
  std::optional<SharedPlaces> shared_places{};  // none: no plan has any
  // Ranks of a host do their part in level calls (plan/level_calls.h), for which algorithms are
  // chosen; names say so.
  bool level_calls = false;
};

struct PlannerOptions {
  group::GroupPointer group;
  int rank = 0;
  int cores = 1;             // of every host
  select::Model model;       // equal on all ranks
  std::string model_origin;  // for people
  // Tests plant faults here: called with every plan before it is compiled. Empty otherwise.
  std::function<void(plan::Plan&)> tamper;
  PlanEngine host;
};

/// How the buffers of a call can be reached by the ranks of the domain; equal on all of them.
struct BufferReach {
  plan::Mode mode = plan::Mode::kStaged;
  bool registered = false;
};

/// The plans for one engine.
class EnginePlans {
 public:
  /// `options` and `call_options`, which change in set_options() only, outlive it.
  EnginePlans(const PlannerOptions& options, const CallOptions& call_options, PlanEngine engine);

  /// The plan for `request`; valid until the next prepare() or prepare_vectors(), which may replace
  /// it.
  Result<const Prepared*> prepare(const Request& request, bool in_place, BufferReach reach);
  /// The result of the last prepare(), if that is the plan for this request, too; or null.
  const Prepared* repeat(const Request& request, bool in_place, BufferReach reach) {
    const PlanKey key = key_of(request, in_place, reach);  // may forget all plans
    return last_ != nullptr && last_->key == key ? last_ : nullptr;
  }

  /// v-collectives. `longest`: no share of any rank has more elements; equal on all ranks. Whether
  /// the schedule that runs forwards blocks of private counts, so that their sizes must be known.
  Result<bool> forwards(const Request& request, uint64_t longest, bool in_place);
  /// `sizes`: in elements, by scratch block, if it does. `mode`: how peers reach the inputs, which
  /// but for kStaged are laid out alike on all ranks.
  Result<const Prepared*> prepare_vectors(const Request& request, uint64_t longest, bool in_place,
                                          std::span<const uint64_t> sizes,
                                          plan::Mode mode = plan::Mode::kStaged);
  /// The size round: the same schedule over one uint64 a block. Valid until the next call of this.
  Result<const Prepared*> prepare_sizes(const Request& request, uint64_t longest, bool in_place);

  int ranks() const { return options_.group->ranks(); }
  /// Before `call_options` become these.
  void expect(const CallOptions& options) { variant_ = variant_of(options); }
  const CallOptions& options_of(const Extras* extras) const {
    return extras != nullptr && extras->options ? *extras->options : call_options_;
  }

  /// For messages, as far as it is known before there is a plan.
  diagnosis::DescribedCall describe(const Request& request) const;

  /// How long the request should take by the costs that algorithms declare. No plan is made.
  Result<double> predict_ns(const Request& request, bool in_place);
  /// The same in one slice, where ranks read each other's memory; of an engine with a link of its
  /// own.
  Result<double> predict_direct_ns(const Request& request, bool in_place) const;
  /// The same for messages of one rank to or from others, all at once.
  double predict_ns(size_t messages, uint64_t bytes) const;

  /// The model, corrected by what calls of this communicator have taken; nothing where they do not
  /// tell enough.
  std::optional<select::Model> refit(std::span<const select::Measured> calls);
  /// The algorithm that has run a collective: by its name and, behind a colon, its lanes.
  std::optional<select::Measured> measured_of(schedule::Collective collective,
                                              std::string_view algorithm, int root) const;

  /// The two ways of copying of a call that may read its peers' memory; nothing where the setting
  /// decides, or nothing was measured.
  std::optional<select::CopyChoice> weigh(const select::Candidate& chosen, const Request& request,
                                          BufferReach reach);

  /// Whether messages of the request may be encoded, and why not, in a sentence for people; ""
  /// where its options say nothing of it.
  std::string explain_wire(const Request& request, bool in_place);
  std::string explain_codecs(const codecs::WireOption& option) const;
  /// The plan that the first rank of the largest host would have, which all ranks make alike.
  Result<plan::Plan> plan_of_largest_host(const Request& request) const;
  /// Every candidate for the request with its prediction and why it lost.
  std::vector<select::Candidate> candidates(const Request& request, bool in_place);

 private:
  using MatchKey =
      std::tuple<std::string, int, int, int, bool>;  // name, root, lanes, mode, in place

  /// Which algorithm runs a v-collective, and what it was chosen for.
  struct Choice {
    PlanKey key;
    select::Candidate candidate;
  };

  /// The parts that the signature holds, or leaves out, beyond the request.
  struct SignatureInputs {
    uint64_t shared_counts = 0;  // a hash of the count vectors that all ranks know
    bool any_placement = true;   // in place or not is each rank's own affair
  };

  PlanKey key_of(const Request& request, bool in_place, BufferReach reach);
  Result<const Prepared*> make(const Request& request, bool in_place, BufferReach reach,
                               uint64_t hash);
  select::Query query_of(const Request& request, bool in_place) const;
  Result<plan::Match*> match_of(const select::Candidate& chosen, const Request& request,
                                bool in_place, BufferReach reach);
  PlanKey vector_key(const Request& request, uint64_t longest, bool in_place, plan::Mode mode);
  Result<const select::Candidate*> choose_vectors(const Request& request, uint64_t longest,
                                                  bool in_place);
  plan::Plan bind(const plan::Match& match, const plan::BindRequest& request) const;
  Result<std::unique_ptr<Prepared>> bind_vectors(const Request& request, const PlanKey& key,
                                                 bool in_place, std::span<const uint64_t> sizes,
                                                 plan::Mode mode);
  const Prepared* keep(uint64_t hash, std::unique_ptr<Prepared> prepared);
  Status finish(Prepared& prepared, const select::Candidate& chosen, const Request& request,
                const SignatureInputs& inputs);
  Result<plan::Plan> plan_of_largest_host(const select::Candidate& candidate,
                                          const Request& request) const;
  static Status check_levels_elsewhere(plan::MatchRequest wanted);
  bool fits_staged(const select::Candidate& candidate, const Request& request) const;
  static bool placement_counts(const Prepared& prepared, const SignatureInputs& inputs);
  void sign(Prepared& prepared, const SignatureInputs& inputs, const CallOptions& options) const;
  // Encodings: planner_wire.cc.
  codecs::WireOption wire_of(const Request& request) const;
  static std::string why_exact(const Request& request);
  Status check_wire(const Request& request) const;
  void add_wire(const Request& request, select::Query& query) const;
  Result<select::Candidate> choose(const Request& request, const select::Query& query) const;
  uint32_t variant_of(const CallOptions& options);
  uint32_t variant_of(const Request& request) {
    const bool own = request.extras != nullptr && request.extras->options;
    return own ? variant_of(*request.extras->options) : variant_;
  }

  const PlannerOptions& options_;
  const CallOptions& call_options_;
  const PlanEngine engine_;
  const uint32_t model_version_;
  mutable select::LevelPrices prices_;                // remembers what it counted
  std::optional<select::LevelPrices> switch_prices_;  // of shared places
  select::Sharing sharing_;                           // by them
  // Numbers for what options change in a plan; 0 for the library's own choice. Each rank has its
  // own, so they are in no signature.
  struct Variant {
    std::string algorithm;
    bool deterministic;
    std::string wire;
    bool operator==(const Variant&) const = default;
  };
  std::vector<Variant> variants_;
  uint32_t variant_ = 0;
  const Prepared* last_ = nullptr;
  PlanCache plans_;
  const Prepared* last_vectors_ = nullptr;  // in plans_
  std::unique_ptr<Prepared> sizes_;         // of the last size round
  std::optional<Choice> vector_choice_;
  std::map<MatchKey, plan::Match> matches_;
};

/// The plans of a communicator, for whatever engine runs them: by one model and one set of options.
/// Threads: options in one; the plans of each engine in one, which may differ.
class Planner {
 public:
  explicit Planner(PlannerOptions options)
      : options_(std::move(options)), host_(options_, call_options_, options_.host) {}
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  const PlannerOptions& planning() const { return options_; }
  EnginePlans& host() { return host_; }
  /// One more engine; it lives as long as this.
  EnginePlans& add(PlanEngine engine);

  /// For requests that bring none.
  void set_options(const CallOptions& options);
  const CallOptions& options() const { return call_options_; }
  const CallOptions& options_of(const Extras* extras) const {
    return extras != nullptr && extras->options ? *extras->options : call_options_;
  }

 private:
  const PlannerOptions options_;
  CallOptions call_options_;
  EnginePlans host_;
  std::vector<std::unique_ptr<EnginePlans>> others_;
};

inline PlanKey EnginePlans::key_of(const Request& request, bool in_place, BufferReach reach) {
  return {.count = request.count,
          .root = request.root,
          .variant = variant_of(request),
          .collective = request.collective,
          .type = request.type,
          .op = request.op,
          .mode = reach.mode,
          .in_place = in_place,
          .registered = reach.registered};
}

inline Result<const Prepared*> EnginePlans::prepare(const Request& request, bool in_place,
                                                    BufferReach reach) {
  const PlanKey key = key_of(request, in_place, reach);
  if (last_ != nullptr && last_->key == key) [[likely]]
    return last_;
  const uint64_t hash = hash_of(key);
  const Prepared* known = plans_.find(hash, [&](const Prepared& one) { return one.key == key; });
  if (known != nullptr) return last_ = known;
  return make(request, in_place, reach, hash);
}

}  // namespace tutti::comm
