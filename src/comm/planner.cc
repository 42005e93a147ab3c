#include "src/comm/planner.h"

#include <string_view>

namespace tutti::comm {

namespace {

// FNV-1a over the words that every rank of a matching call has in common.
class Hash {
 public:
  void add(uint64_t word) {
    for (int i = 0; i < 8; ++i) {
      value_ = (value_ ^ (word >> (8 * i) & 0xff)) * 0x100000001b3u;
    }
  }
  void add(std::string_view text) {
    for (char c : text) value_ = (value_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  uint32_t fold() const { return static_cast<uint32_t>(value_ ^ value_ >> 32); }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// Of streams of devices, whose slices ask no peer between hosts for room.
select::Slicing overlapping(const plan::Tuning& tuning) {
  if (tuning.turns < 2) return {};
  return {.frame_bytes = static_cast<double>(tuning.frame_bytes),
          .overlaps = true,
          .most_short_slices = static_cast<double>(tuning.most_short_slices),
          .spanning_frame_bytes = static_cast<double>(tuning.spanning_frame_bytes)};
}

select::Slicing slicing_of(const plan::Tuning& tuning) {
  return {.frame_bytes = static_cast<double>(tuning.frame_bytes),
          .stream_bytes = static_cast<double>(tuning.stream_bytes),
          .memory_bytes = static_cast<double>(tuning.long_slice_bytes),
          .turns = tuning.turns,
          .lands = tuning.lands};
}

}  // namespace

EnginePlans::EnginePlans(const PlannerOptions& options, const CallOptions& call_options,
                         PlanEngine engine)
    : options_(options),
      call_options_(call_options),
      engine_(std::move(engine)),
      model_version_(select::version_of(options_.model)),
      prices_(engine_.link ? select::LevelPrices(*engine_.link)
                           : select::LevelPrices(options_.group, options_.cores, options_.model)) {
  prices_.set_slicing(engine_.link ? overlapping(engine_.tuning) : slicing_of(engine_.tuning));
  if (engine_.near_link) prices_.set_near_link(*engine_.near_link);
  if (engine_.crossing) prices_.cross_hosts(*engine_.crossing);
  if (!engine_.shared_places) return;
  switch_prices_.emplace(engine_.shared_places->link);
  switch_prices_->set_slicing(overlapping(engine_.tuning));
  sharing_ = {engine_.shared_places->can, &*switch_prices_, engine_.shared_places->must};
}

EnginePlans& Planner::add(PlanEngine engine) {
  others_.push_back(std::make_unique<EnginePlans>(options_, call_options_, std::move(engine)));
  others_.back()->expect(call_options_);
  return *others_.back();
}

void Planner::set_options(const CallOptions& options) {
  CallOptions copy = options;
  host_.expect(copy);
  for (const auto& other : others_) other->expect(copy);
  call_options_ = std::move(copy);
}

uint32_t EnginePlans::variant_of(const CallOptions& options) {
  const std::string_view named =
      engine_.takes_named ? std::string_view(options.algorithm) : std::string_view();
  if (named.empty() && !options.deterministic && options.wire.empty()) return 0;
  for (size_t i = 0; i < variants_.size(); ++i) {
    const Variant& one = variants_[i];
    if (one.deterministic != options.deterministic || one.algorithm != named) continue;
    if (one.wire == options.wire) return static_cast<uint32_t>(i + 1);
  }
  constexpr size_t kMost = 0xffff;  // each is compared
  if (variants_.size() == kMost) {
    variants_.clear();
    plans_.clear();
    last_ = last_vectors_ = nullptr;
    vector_choice_.reset();
    sizes_.reset();
    variant_ = variant_of(call_options_);  // its old number may become another's
    return variant_of(options);
  }
  variants_.push_back({std::string(named), options.deterministic, options.wire});
  return static_cast<uint32_t>(variants_.size());
}

select::Query EnginePlans::query_of(const Request& request, bool in_place) const {
  const CallOptions& options = options_of(request.extras);
  select::Query query;
  query.collective = request.collective;
  query.parameters.ranks = options_.group->ranks();
  query.parameters.tree = prices_.tree();
  query.parameters.root = request.root;
  query.parameters.fold = options.deterministic ? schedule::Fold::kTree : schedule::Fold::kList;
  query.count = request.count;
  query.element_bytes = static_cast<uint32_t>(types::size_of(request.type));
  // Only the root of a rooted collective can have two buffers, so the others do not know whether
  // they are one; all ranks must choose alike.
  query.in_place = in_place || schedule::traits_of(request.collective).rooted();
  query.vectors = request.counts != nullptr;
  query.deterministic = options.deterministic && schedule::reduces(request.collective);
  if (engine_.takes_named) query.forced = options.algorithm;
  query.forced_by = "the options of the call or communicator";
  if (query.forced.empty()) {
    const auto forced = engine_.forced.find(schedule::name_of(request.collective));
    if (forced != engine_.forced.end()) {
      query.forced = forced->second.algorithm;
      query.forced_by = forced->second.by;
    }
  }
  query.prices = &prices_;
  query.limits = {.sources = engine_.most_sources,
                  .slice_bytes = engine_.tuning.frame_bytes,
                  .frame_bytes = engine_.tuning.region_bytes};
  add_wire(request, query);
  if (!query.vectors) {
    const bool may_share = engine_.shared_places && engine_.shared_places->may(request);
    if (may_share) query.sharing = &sharing_;
    query.fits = [this, &request](const select::Candidate& candidate) {
      return fits_staged(candidate, request);
    };
  }
  return query;
}

std::vector<select::Candidate> EnginePlans::candidates(const Request& request, bool in_place) {
  select::Query query = query_of(request, in_place);
  if (query.vectors) query.count = longest_of(*request.counts);
  return select::rank_candidates(engine_.algorithms, query);
}

Result<plan::Match*> EnginePlans::match_of(const select::Candidate& chosen, const Request& request,
                                           bool in_place, BufferReach reach) {
  const schedule::Parameters& parameters = chosen.parameters;
  const bool renamed = request.counts != nullptr && chosen.algorithm->forwards;
  const MatchKey key{std::string(schedule::name_of(request.collective)) + "/" +
                         std::string(chosen.algorithm->name) + (renamed ? "/renamed" : "") +
                         (chosen.encodes ? "/" + options_of(request.extras).wire : ""),
                     parameters.root * 2 + static_cast<int>(parameters.fold), parameters.lanes,
                     static_cast<int>(reach.mode), in_place};
  auto known = matches_.find(key);
  if (known == matches_.end()) {
    plan::MatchRequest wanted;
    wanted.algorithm = chosen.algorithm;
    wanted.parameters = parameters;
    wanted.rank = options_.rank;
    wanted.group = options_.group;
    wanted.mode = reach.mode;
    wanted.in_place = in_place;
    wanted.hazards_in_place = in_place;
    wanted.single_assignment = renamed;
    if (chosen.encodes) wanted.wire = plan::wire_of(wire_of(request), *options_.group);
    wanted.level_calls = engine_.level_calls;
    if (wanted.level_calls) {
      if (Status lacks = check_levels_elsewhere(wanted); !lacks.ok()) return lacks;
    }
    Result<plan::Match> made = plan::match(wanted);
    if (!made.ok()) return made.status();
    known = matches_.emplace(key, std::move(made).value()).first;
  }
  plan::Match& match = known->second;
  // Elements of 16 bits cannot hold every decoded value, which somebody would encode again.
  const bool holds = request.type == types::DataType::kFloat32 || !match.rounding.encodes_again;
  if (!holds) {
    select::Candidate exact = chosen;
    exact.encodes = false;
    return match_of(exact, request, in_place, reach);
  }
  if (request.op == types::ReduceOp::kAvg && schedule::reduces(request.collective) &&
      !match.terms_are_counted) {
    Status status = plan::count_terms(match, *chosen.algorithm, parameters);
    if (!status.ok()) return status;
  }
  return &match;
}

Result<plan::Plan> EnginePlans::plan_of_largest_host(const select::Candidate& candidate,
                                                     const Request& request) const {
  plan::MatchRequest wanted;
  wanted.algorithm = candidate.algorithm;
  wanted.parameters = candidate.parameters;
  wanted.rank = options_.group->first_of_largest_host();
  wanted.group = options_.group;
  if (candidate.encodes) wanted.wire = plan::wire_of(wire_of(request), *options_.group);
  wanted.level_calls = engine_.level_calls;
  const Result<plan::Match> match = plan::match(wanted);
  if (!match.ok()) return match.status();
  plan::BindRequest bound;
  bound.count = request.count;
  bound.type = request.type;
  bound.far_slices = candidate.far_slices;
  return plan::bind(match.value(), bound, engine_.tuning);
}

Result<plan::Plan> EnginePlans::plan_of_largest_host(const Request& request) const {
  const Result<select::Candidate> chosen = choose(request, query_of(request, false));
  if (!chosen.ok()) return chosen.status();
  return plan_of_largest_host(chosen.value(), request);
}

bool EnginePlans::fits_staged(const select::Candidate& candidate, const Request& request) const {
  const Result<plan::Plan> plan = plan_of_largest_host(candidate, request);
  return plan.ok() && plan::check_fit(plan.value(), engine_.tuning).ok();
}

// A rank knows its own host's steps; whether those of all hosts are level calls must be equal on
// all ranks.
Status EnginePlans::check_levels_elsewhere(plan::MatchRequest wanted) {
  for (const int first : wanted.group->host_first_ranks()) {
    wanted.rank = first;
    const auto host = plan::HostMatch::make(wanted);
    if (!host.ok()) return host.status();
  }
  return {};
}

diagnosis::DescribedCall EnginePlans::describe(const Request& request) const {
  diagnosis::DescribedCall described;
  described.collective = request.collective;
  described.type = request.type;
  described.op = request.op;
  described.root = request.root;
  described.deterministic = options_of(request.extras).deterministic;
  described.set_wire(options_of(request.extras).wire);
  described.has_counts = request.counts != nullptr;
  described.count = request.count;
  // Ranks know of private counts their own.
  if (described.has_counts) {
    described.count = request.counts->is_private() ? 0 : longest_of(*request.counts);
  }
  return described;
}

// Whether the call is in place and others must know: it is each rank's own affair as long as no
// other rank touches its buffers, or all placements are touched alike.
bool EnginePlans::placement_counts(const Prepared& prepared, const SignatureInputs& inputs) {
  const bool is_staged = prepared.plan.match->mode == plan::Mode::kStaged;
  const bool own_affair = is_staged || inputs.any_placement;
  return prepared.key.in_place && !own_affair;
}

void EnginePlans::sign(Prepared& prepared, const SignatureInputs& inputs,
                       const CallOptions& options) const {
  const auto hash_of = [&](PlanKey key) {
    key.variant = 0;  // each rank numbers them by itself
    Hash hash;
    hash.add(comm::hash_of(key));
    hash.add(inputs.shared_counts);
    hash.add(options.deterministic);
    hash.add(options.wire);
    hash.add(model_version_);
    hash.add(prepared.plan.algorithm);
    return hash.fold() | 1u;
  };
  // How the ranks of another host reach each other's buffers is their own affair.
  PlanKey near = prepared.key;
  near.in_place = placement_counts(prepared, inputs);
  PlanKey common = prepared.key;
  common.in_place = common.registered = false;
  common.mode = plan::Mode::kStaged;
  prepared.signature = hash_of(near);
  prepared.far_signature = hash_of(common);
}

// Every plan goes through this when it is bound, whatever its layout.
Status EnginePlans::finish(Prepared& prepared, const select::Candidate& chosen,
                           const Request& request, const SignatureInputs& inputs) {
  plan::Plan& plan = prepared.plan;
  plan.algorithm = chosen.algorithm->name;
  if (chosen.parameters.lanes > 1) plan.algorithm += ":" + std::to_string(chosen.parameters.lanes);
  if (engine_.level_calls) plan.algorithm += "+level";
  if (Status status = plan::check_fit(plan, engine_.tuning); !status.ok()) return status;
  for (plan::LanePlan& lane : plan.lanes) lane.engine = engine_.engine;
  if (options_.tamper) options_.tamper(plan);
  sign(prepared, inputs, options_of(request.extras));
  prepared.described = describe(request);
  prepared.described.in_place = placement_counts(prepared, inputs);
  prepared.described.set_algorithm(plan.algorithm);
  prepared.described.counts =
      static_cast<uint32_t>(inputs.shared_counts ^ inputs.shared_counts >> 32);
  prepared.described.model = model_version_;
  prepared.program = exec::HostProgram(plan);
  prepared.fast = exec::FastPath::compile(prepared.program, options_.rank);
  return {};
}

Result<double> EnginePlans::predict_ns(const Request& request, bool in_place) {
  select::Query query = query_of(request, in_place);
  if (request.counts != nullptr) query.count = longest_of(*request.counts);
  Result<select::Candidate> chosen = choose(request, query);
  if (!chosen.ok()) return chosen.status();
  return chosen.value().predicted_ns;
}

Result<double> EnginePlans::predict_direct_ns(const Request& request, bool in_place) const {
  if (!engine_.link) return Status::internal_error("an engine without a link reads no devices");
  select::Query query = query_of(request, in_place);
  query.sharing = nullptr;
  const Result<select::Candidate> chosen = choose(request, query);
  if (!chosen.ok()) return chosen.status();
  const schedule::Parameters& parameters = chosen.value().parameters;
  const select::Usage usage =
      select::direct_use(prices_.usage_of(*chosen.value().algorithm, parameters), parameters.ranks);
  const double bytes = static_cast<double>(request.count) * types::size_of(request.type);
  return select::LevelPrices(*engine_.link).price(usage, bytes);
}

double EnginePlans::predict_ns(size_t messages, uint64_t bytes) const {
  const schedule::Cost cost{.depth = 1,
                            .messages = static_cast<uint32_t>(messages),
                            .bytes = {1, 1},
                            .published = {1, 1},
                            .moved = {1, 1},
                            .work = schedule::Fraction::of(2, 1),
                            .scratch = {}};
  return select::predict_ns(cost, prices_.slowest(), static_cast<double>(bytes));
}

// Matches are kept as long as the planner, and what `request` views as long as the plan.
plan::Plan EnginePlans::bind(const plan::Match& match, const plan::BindRequest& request) const {
  plan::Plan plan = plan::bind(match, request, engine_.tuning);
  plan.match = &match;
  plan.layout = request.layout(match.shape);
  return plan;
}

std::optional<select::CopyChoice> EnginePlans::weigh(const select::Candidate& chosen,
                                                     const Request& request, BufferReach reach) {
  if (!engine_.weighs_single_copy || reach.mode != plan::Mode::kSingleCopy) return std::nullopt;
  const double bytes = static_cast<double>(request.count) * types::size_of(request.type);
  return prices_.copies_of(*chosen.algorithm, chosen.parameters, bytes);
}

Result<const Prepared*> EnginePlans::make(const Request& request, bool in_place, BufferReach reach,
                                          uint64_t hash) {
  Result<select::Candidate> chosen = choose(request, query_of(request, in_place));
  if (!chosen.ok()) return chosen.status();
  BufferReach taken = reach;
  if (engine_.weighs_single_copy && reach.mode == plan::Mode::kSingleCopy) {
    const std::optional<select::CopyChoice> ways = weigh(chosen.value(), request, reach);
    if (!ways || !ways->takes_single()) taken.mode = plan::Mode::kStaged;
  }
  Result<plan::Match*> match = match_of(chosen.value(), request, in_place, taken);
  if (!match.ok()) return match.status();

  auto prepared = std::make_unique<Prepared>();
  prepared->key = key_of(request, in_place, reach);
  prepared->registered = reach.registered;
  plan::BindRequest wanted{request.count, request.type, folded_op(request)};
  wanted.far_slices = chosen.value().far_slices;
  wanted.shares_places = chosen.value().shares;
  prepared->plan = bind(*match.value(), wanted);
  // Of a rooted collective, what is right for both placements was chosen anyway.
  const bool any_placement =
      schedule::traits_of(request.collective).rooted() || !match.value()->placement_matters;
  if (Status s = finish(*prepared, chosen.value(), request, {0, any_placement}); !s.ok()) return s;
  if (engine_.calls != nullptr) {
    prepared->label = engine_.calls->label(request, prepared->plan.algorithm);
    engine_.calls->tell_choice(request, prepared->plan.algorithm);
  }
  return last_ = keep(hash, std::move(prepared));
}

const Prepared* EnginePlans::keep(uint64_t hash, std::unique_ptr<Prepared> prepared) {
  last_ = last_vectors_ = nullptr;  // one may be the plan that makes room
  return plans_.insert(hash, std::move(prepared));
}

}  // namespace tutti::comm
