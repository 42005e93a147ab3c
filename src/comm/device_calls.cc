#include "src/comm/device_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/setting_values.h"
#include "src/comm/device_texts.h"
#include "src/comm/level_calls.h"
#include "src/comm/network_lanes.h"
#include "src/comm/turns_alike.h"
#include "src/comm/vendor_calls.h"
#include "src/plan/renumber.h"
#include "src/plan/wire.h"

namespace tutti::comm {
namespace {

using schedule::Collective;

bool is_scaled(const Request& request) { return request.op == types::ReduceOp::kScaledSum; }

/// Of a plan's call whose options name an engine.
uint32_t signature_with(uint32_t signature, EngineWish engine) {
  constexpr uint32_t kSpread = 0x9e3779b2u;  // even: the lowest bit is set in every signature
  return signature ^ static_cast<uint32_t>(engine) * kSpread;
}

/// A plan that streams are put through.
WholeCall whole_of(const Prepared& ready) {
  return {&ready.plan, ready.signature, ready.described, ready.label, ready.far_signature};
}

void read_registered(exec::StreamedCall& call, const RegisteredCall& direct) {
  call.inputs = direct.inputs;
  call.outputs = direct.outputs;
  call.first_copied = direct.first_copied;
  call.described.place = direct.place;
  call.call.signature = (call.call.signature ^ direct.mark) | 1u;
}

}  // namespace

// Of what only copies, the algorithm with the shortest chain that needs no scratch memory: every
// dependence between ranks costs a stream a hand-over of 10 us. Of reductions those that need no
// more scratch memory than they stage, of which the link model chooses; all ranks are on one level.
std::vector<schedule::Algorithm> device_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                   int ranks) {
  const schedule::Parameters parameters{.ranks = ranks};
  const auto depth = [&](const schedule::Algorithm& one) { return one.cost(parameters).depth; };
  std::vector<schedule::Algorithm> taken;
  for (const schedule::Algorithm& algorithm : algorithms) {
    if (algorithm.loads != nullptr || algorithm.shape(parameters).lanes > 1) continue;
    if (!takes_turns_alike(algorithm, parameters, false)) continue;
    if (!takes_turns_alike(algorithm, parameters, true)) continue;
    const schedule::Cost cost = algorithm.cost(parameters);
    if (schedule::reduces(algorithm.collective)) {
      const bool fits = uint64_t{cost.scratch.num} * cost.published.den <=
                        uint64_t{cost.published.num} * cost.scratch.den;
      if (fits) taken.push_back(algorithm);
      continue;
    }
    if (cost.scratch.num > 0) continue;
    const auto known = std::find_if(taken.begin(), taken.end(), [&](const auto& one) {
      return one.collective == algorithm.collective;
    });
    if (known == taken.end()) {
      taken.push_back(algorithm);
    } else if (cost.depth < depth(*known)) {
      *known = algorithm;
    }
  }
  for (schedule::Algorithm& algorithm : taken) algorithm.max_lanes = 1;
  return taken;
}

plan::Tuning device_tuning(const exec::RingShape& ring) {
  const uint64_t pads = ring.region_bytes / 16;
  plan::Tuning tuning;
  tuning.turns = exec::kDeviceLanes;
  tuning.inline_bytes = 0;
  tuning.region_bytes = ring.region_bytes;
  tuning.frame_bytes = ring.region_bytes - pads;
  tuning.scratch_bytes = ring.scratch_bytes - pads;
  tuning.most_short_slices = 16;
  tuning.spanned_bytes = ring.lane_regions * ring.region_bytes;
  tuning.spanning_frame_bytes = tuning.spanned_bytes - pads;
  tuning.pipeline_bytes = tuning.pipeline_region_bytes = ~uint64_t{0};
  tuning.long_pipeline_bytes = ~uint64_t{0};
  tuning.streaming_store_bytes = tuning.pipeline_streaming_store_bytes = ~uint64_t{0};
  return tuning;
}

Result<std::unique_ptr<DeviceCalls>> DeviceCalls::open(exec::Device& device,
                                                       exec::DeviceRankOptions options,
                                                       Planner& planner,
                                                       std::unique_ptr<CallRecorder> recorder,
                                                       const DeviceSurroundings& around) {
  options.recorder = &recorder->recorder();
  const MulticastWish multicast = options.multicast;
  Result<std::unique_ptr<exec::DeviceRank>> rank = device.open(std::move(options));
  if (!rank.ok() && rank.status().code() != Code::kUnsupported) return rank.status();
  Status agreed = around.agree(rank.ok() ? Status() : rank.status());
  if (!agreed.ok()) {
    if (agreed.code() != Code::kUnsupported) return agreed;
    return std::make_unique<DeviceCalls>(std::move(agreed));
  }
  Status folds = around.agree(rank.value()->folds());
  if (!folds.ok() && folds.code() != Code::kUnsupported) return folds;
  std::unique_ptr<DeviceCalls> made(new DeviceCalls(std::move(rank).value(), std::move(recorder),
                                                    around, planner.planning().rank));
  const Result<select::DeviceWay> way = around.find_way(!made->rank_->rings().empty());
  if (!way.ok()) return way.status();
  made->way_ = way.value();
  made->multicast_ = multicast;
  made->folds_ = std::move(folds);
  made->pairs_ = around.agree(made->room_for_pairs());
  if (!made->pairs_.ok() && made->pairs_.code() != Code::kUnsupported) return made->pairs_;
  if (Status failed = made->plan_with(planner, around.agree); !failed.ok()) return failed;
  // Without kernels nothing but the library reduces, so it must be known whether it is there.
  if (!made->folds_.ok()) {
    if (Status failed = made->rank_->vendor().settle(); !failed.ok()) return failed;
  }
  return made;
}

DeviceCalls::DeviceCalls(std::unique_ptr<exec::DeviceRank> rank,
                         std::unique_ptr<CallRecorder> recorder, const DeviceSurroundings& around,
                         int self)
    : numbers_(around.numbers),
      calls_(std::move(recorder)),
      rank_(std::move(rank)),
      places_(around.places),
      self_(self),
      wish_(around.wish),
      warn_(around.warn) {
  for (const uint32_t number : numbers_) near_.push_back(number < around.near);
}

// A user's choice of an algorithm is for the host's lanes.
Status DeviceCalls::plan_with(Planner& planner, const Agreement& agree) {
  PlanEngine engine = engine_of(planner.planning());
  frame_bytes_ = engine.tuning.frame_bytes;
  plans_ = &planner.add(engine);
  if (is_networked()) return plan_levels(planner, std::move(engine), agree);
  plan_whole_calls(planner);
  return {};
}

// Hosts see the words of their own ranks only. So all wait until the library is there or not, when
// the communicator is made, and tell each other.
Status DeviceCalls::plan_levels(Planner& planner, PlanEngine engine, const Agreement& agree) {
  LevelCalls::LevelParts parts;
  parts.library = &rank_->vendor();
  if (Status failed = parts.library->settle(); !failed.ok()) return failed;
  parts.refusal = agree(parts.library->refusal());
  if (!parts.refusal.ok() && parts.refusal.code() != Code::kUnsupported) return parts.refusal;
  parts.folds = folds_;
  parts.explain = [this](const plan::Plan& plan) { return network_text(plan) + rings(); };
  whole_.push_back(
      std::make_unique<LevelCalls>(std::move(parts), planner, *plans_, std::move(engine)));
  return {};
}

void DeviceCalls::plan_whole_calls(Planner& planner) {
  auto kernels = std::make_unique<KernelCalls>(*rank_, planner, *plans_, way_, calls_.get());
  const auto others_ns = [this, by_kernel = kernels.get()](const Request& request) {
    double least = std::numeric_limits<double>::infinity();
    const bool streams_fold = folds_.ok() || !schedule::reduces(request.collective);
    const Result<double> streams = plans_->predict_ns(request, false);
    if (streams.ok() && streams_fold) least = streams.value();
    if (!by_kernel->objection(request, EngineWish::kAuto).ok()) return least;
    const Result<double> kernel = by_kernel->predict_ns(request);
    return kernel.ok() ? std::min(least, kernel.value()) : least;
  };
  whole_.push_back(std::make_unique<VendorCalls>(rank_->vendor(), *plans_, planner.planning().model,
                                                 others_ns, *calls_));
  whole_.push_back(std::move(kernels));
}

PlanEngine DeviceCalls::engine_of(const PlannerOptions& planning) {
  const select::LinkModel link = select::link_of(planning.model.devices, way_);
  PlanEngine engine;
  engine.engine = plan::Engine::kDevice;
  if (is_networked()) {
    algorithms_ = network_algorithms(planning.host.algorithms, *planning.group);
    engine.tuning = network_tuning(device_tuning(rank_->ring_shape()));
    engine.near_link = link;
    engine.crossing = planning.model.devices;
  } else {
    algorithms_ = device_algorithms(planning.host.algorithms, planning.group->ranks());
    engine.tuning = device_tuning(rank_->ring_shape());
    engine.link = link;
    engine.shared_places = shared_places(planning, engine.tuning);
  }
  engine.algorithms = algorithms_;
  engine.takes_named = false;
  engine.most_sources = rank_->most_sources();
  engine.calls = calls_.get();
  return engine;
}

bool DeviceCalls::may_take(const Request& request) {
  return request.collective != Collective::kBarrier;
}

// In place a group of one moves nothing, so nothing would be scaled.
Status DeviceCalls::unsupported_reason(const Request& request, EngineWish engine) const {
  if (!is_networked()) return objection_to_kind(request, engine);
  Status network = objection_to_network(request, engine);
  return network.ok() ? Status::unsupported(kApart) : network;
}

Status DeviceCalls::objection_to_network(const Request& request, EngineWish engine) const {
  if (refusal_.ok() && !is_networked()) return Status::unsupported("all ranks are on one host");
  if (Status kind = objection_to_kind(request, engine); !kind.ok()) return kind;
  const bool encodes = !plans_->options_of(request.extras).wire.empty();
  if (encodes && plan::codec_of(request.type)) {
    return Status::unsupported("the wire option encodes messages, which is work of the host");
  }
  return {};
}

WholeCalls* DeviceCalls::find_whole(const Request& request, EngineWish engine) const {
  const auto found = std::find_if(whole_.begin(), whole_.end(), [&](const auto& one) {
    return objection_of(*one, request, engine).ok();
  });
  return found == whole_.end() ? nullptr : found->get();
}

// Calls that the engine of a wish leaves to others go as if nobody wished for anything.
Status DeviceCalls::objection_of(WholeCalls& one, const Request& request, EngineWish engine) const {
  const bool is_meant = std::any_of(whole_.begin(), whole_.end(),
                                    [&](const auto& other) { return other->is_meant(engine); });
  return one.objection(request, is_meant && !one.is_meant(engine) ? EngineWish::kAuto : engine);
}

// The one that runs the request now; null: streams do.
Result<WholeCalls*> DeviceCalls::choose_whole(const Request& request, bool captured) {
  const EngineWish asked = plans_->options_of(request.extras).engine;
  const EngineWish engine = wish_for(asked);
  for (const auto& one : whole_) {
    Status why = objection_of(*one, request, engine);
    if (why.ok()) why = one->get_ready(captured);
    if (why.ok()) return one.get();
    if (why.code() != Code::kUnsupported) return why;
    if (!one->is_meant(engine)) continue;
    if (Status refused = pass_over(*one, why, asked, request); !refused.ok()) return refused;
  }
  return nullptr;
}

// Options that name an engine will have nothing else. Of a communicator's wish the log has each
// reason once.
Status DeviceCalls::pass_over(const WholeCalls& one, const Status& why, EngineWish asked,
                              const Request& request) {
  if (one.is_meant(asked)) {
    return Status::unsupported(std::string(name_of(request)) + " on a stream of a device: the " +
                               "options of the call or communicator ask for the engine " +
                               std::string(engine_name(asked)) + ", but " +
                               std::string(why.message()));
  }
  if (told_.insert(std::string(why.message())).second) {
    warn_(std::string(name_of(request)) + " on streams of devices goes " + one.explain(why));
  }
  return {};
}

/// Why the engine that the options of the request name does not run it.
Status DeviceCalls::objection_to_asked(const Request& request) const {
  const EngineWish asked = plans_->options_of(request.extras).engine;
  for (const auto& one : whole_) {
    if (one->is_meant(asked)) return one->objection(request, asked);
  }
  return {};
}

Status DeviceCalls::objection_to_kind(const Request& request, EngineWish engine) const {
  if (!refusal_.ok()) return refusal_;
  if (engine == EngineWish::kHost) return Status::unsupported("the options ask for that");
  if (find_whole(request, engine) != nullptr) return {};
  if (Status strict = objection_to_asked(request); !strict.ok()) return strict;
  if (!may_take(request)) return Status::unsupported("calls of this kind do not go by streams");
  if (has_private_counts(request)) return pairs_;
  const bool folds = schedule::reduces(request.collective);
  if (folds && engine == EngineWish::kCopyEngine) {
    return Status::unsupported("copy engines do not compute");
  }
  if (folds && !folds_.ok()) return folds_;
  const bool known = std::any_of(
      algorithms_.begin(), algorithms_.end(),
      [&](const auto& algorithm) { return algorithm.collective == request.collective; });
  if (!known) return Status::unsupported("no algorithm of this collective suits streams");
  if (is_scaled(request) && plans_->ranks() == 1) {
    return Status::unsupported("it is a scaled sum of one rank");
  }
  return {};
}

bool DeviceCalls::takes(const Request& request, EngineWish engine) const {
  return rank_ != nullptr && unsupported_reason(request, engine).ok();
}

Result<std::shared_ptr<const exec::PeerMemory>> DeviceCalls::share(std::byte* memory,
                                                                   uint64_t bytes) {
  if (rank_ == nullptr) return refusal_;
  if (is_networked()) return Status::unsupported(kApart);
  return rank_->share(memory, bytes);
}

Result<const Prepared*> DeviceCalls::prepare(const Request& request, bool in_place,
                                             BufferReach reach) {
  if (request.counts == nullptr) return plans_->prepare(request, in_place, reach);
  return plans_->prepare_vectors(request, longest_of(*request.counts), in_place, {}, reach.mode);
}

Result<exec::StreamedCall> DeviceCalls::call_of(const Request& request, bool in_place,
                                                const exec::StreamPlace& where) {
  const Result<WholeCalls*> whole = choose_whole(request, where.capture != 0);
  if (!whole.ok()) return whole.status();
  if (whole.value() != nullptr) {
    const Result<WholeCall> taken = whole.value()->take(request, in_place);
    if (!taken.ok()) return taken.status();
    exec::StreamedCall streamed = streamed_call(request, taken.value());
    streamed.engine = whole.value()->engine();
    streamed.where = where;
    return streamed;
  }
  const Result<RegisteredCall> direct = find_direct(request, in_place);
  const Result<const Prepared*> prepared =
      direct.ok() ? prepare(request, direct.value().in_place, {direct.value().mode, false})
                  : prepare(request, in_place, {});
  if (!prepared.ok()) return prepared.status();
  exec::StreamedCall streamed = streamed_call(request, whole_of(*prepared.value()));
  streamed.where = where;
  if (direct.ok()) {
    read_registered(streamed, direct.value());
    calls_->tell_direct(request);
  }
  return streamed;
}

exec::StreamedCall DeviceCalls::streamed_call(const Request& request,
                                              const WholeCall& ready) const {
  const CallOptions& options = plans_->options_of(request.extras);
  const EngineWish engine = options.engine;
  exec::StreamedCall streamed;
  streamed.least_ctas = options.least_ctas;
  streamed.most_ctas = options.most_ctas;
  streamed.plan = ready.plan;
  streamed.call.send = request.send;
  streamed.call.recv = request.recv;
  streamed.call.signature = signature_with(ready.signature, engine);
  streamed.call.what = name_of(request);
  streamed.described = ready.described;
  streamed.described.engine = engine;
  streamed.engines_alone = engine == EngineWish::kCopyEngine;
  streamed.label = ready.label;
  if (is_scaled(request)) streamed.factor = request.extras->scalar;
  if (ready.plan == nullptr) streamed.parts = parts_of(request);
  return streamed;
}

Result<WholeCall> DeviceCalls::take_by_streams(const Request& request, bool in_place) {
  const Result<const Prepared*> prepared = prepare(request, in_place, {});
  if (!prepared.ok()) return prepared.status();
  return whole_of(*prepared.value());
}

// The plan outlives those of the cache, since the host's part runs later.
Result<NetworkedCall> DeviceCalls::networked_call_of(const Request& request, bool in_place,
                                                     const exec::StreamPlace& where) {
  const Result<WholeCalls*> whole = choose_whole(request, where.capture != 0);
  if (!whole.ok()) return whole.status();
  Result<WholeCall> taken = whole.value() != nullptr ? whole.value()->take(request, in_place)
                                                     : take_by_streams(request, in_place);
  if (!taken.ok()) return taken.status();
  const WholeCall& ready = taken.value();
  NetworkedCall call;
  call.streamed = streamed_call(request, ready);
  call.streamed.where = where;
  call.plan = std::make_shared<const exec::NetworkPlan>(plan::renumber(*ready.plan, numbers_));
  call.host = call.streamed.call;
  call.host.what = schedule::name_of(request.collective);
  call.host.far_signature = signature_with(ready.far_signature, call.streamed.described.engine);
  call.described = call.streamed.described;
  call.algorithm = ready.plan->algorithm;
  return call;
}

std::optional<uint32_t> DeviceCalls::find_late() {
  const std::optional<int> late = rank_->find_late();
  if (!late) return std::nullopt;
  return rank_of(static_cast<uint32_t>(*late));
}

uint32_t DeviceCalls::rank_of(uint32_t number) const {
  const auto rank = std::find(numbers_.begin(), numbers_.end(), number);
  return static_cast<uint32_t>(rank - numbers_.begin());
}

// No reduction of private counts goes by streams, so their order does not matter.
diagnosis::DescribedCall DeviceCalls::describe(const Request& request) const {
  diagnosis::DescribedCall described = plans_->describe(request);
  described.engine = plans_->options_of(request.extras).engine;
  if (has_private_counts(request)) described.deterministic = false;
  return described;
}

Status DeviceCalls::declare_by_host(const Request& request) {
  const diagnosis::DescribedCall described = describe(request);
  return rank_->declare(signature_of(described), described);
}

std::string DeviceCalls::rings() const {
  std::string text = rank_->rings().empty() ? "" : "; " + rank_->rings();
  if (way_ != select::DeviceWay::kDirect) {
    text += std::string("; priced as devices that are joined by ") + select::name_of(way_);
  }
  return text;
}

std::string DeviceCalls::explain(const Request& request, bool in_place, EngineWish asked,
                                 EngineWish engine) {
  const bool crosses = objection_to_network(request, engine).ok();
  if (const Status why = unsupported_reason(request, engine); !crosses && !why.ok())
    return not_by_streams(why, asked);
  if (has_private_counts(request)) return explain_shares(request);
  if (crosses) return explain_network(request, in_place, engine);
  if (WholeCalls* const whole = find_whole(request, engine); whole != nullptr) {
    return "on device memory: " + whole->explain(request, in_place) +
           objections(request, engine, whole);
  }
  const Result<const Prepared*> prepared = prepare(request, in_place, {});
  if (!prepared.ok()) return "on device memory: " + std::string(prepared.status().message());
  const plan::Plan& plan = prepared.value()->plan;
  const bool scales = is_scaled(request);
  return "on device memory: by copy engines, staged, " +
         text_of(plan, rank_->count(plan, scales, 0, false)) + explain_direct(request, in_place) +
         "; in graphs staged, " + text_of(rank_->count(plan, scales, 0, true)) + rings() +
         multicast_text(request, in_place) + objections(request, engine, nullptr);
}

// Of the engines that were asked before `taken`; null: of all.
std::string DeviceCalls::objections(const Request& request, EngineWish engine,
                                    const WholeCalls* taken) const {
  std::string text;
  for (const auto& one : whole_) {
    if (one.get() == taken) break;
    if (!one->is_of_interest(engine)) continue;
    text += "; " + one->explain(objection_of(*one, request, engine));
  }
  return text;
}

std::string DeviceCalls::explain_network(const Request& request, bool in_place, EngineWish engine) {
  WholeCalls* const whole = find_whole(request, engine);
  if (whole != nullptr) return "on device memory: " + whole->explain(request, in_place);
  const Result<const Prepared*> prepared = prepare(request, in_place, {});
  if (!prepared.ok()) return "on device memory: " + std::string(prepared.status().message());
  const Result<double> predicted = plans_->predict_ns(request, in_place);
  const std::string price =
      predicted.ok() ? fmt::format(", predicted {:.0f} us", predicted.value() / 1e3) : "";
  return "on device memory: by streams within hosts and messages between them, " +
         network_text(prepared.value()->plan) + price + rings() +
         objections(request, engine, nullptr);
}

std::string DeviceCalls::network_text(const plan::Plan& plan) {
  const plan::Plan local = plan::renumber(plan, numbers_);
  return "through a bounce buffer of " + std::to_string(exec::BounceLayout(local).bytes()) +
         " bytes of pinned memory, " + text_of(local, rank_->count(local, false, 0, false)) +
         "; in graphs " + text_of(local, rank_->count(local, false, 0, true));
}

// Nobody knows yet where the buffers will lie.
std::string DeviceCalls::explain_direct(const Request& request, bool in_place) {
  if (request.collective == Collective::kGather || request.collective == Collective::kScatter) {
    return explain_rooted(request);
  }
  const std::string staged = "; in registered memory staged as well, since ";
  if (!rank_->rings().empty()) return staged + "not all devices reach each other's memory";
  const Result<RegisteredCall> direct =
      DevicePlaces::shape_of(request, in_place, plans_->ranks(), frame_bytes_ + 1);
  if (!direct.ok()) return staged + std::string(direct.status().message());
  const Status why = objection_to_direct(request, direct.value().in_place);
  if (!why.ok()) return staged + std::string(why.message());
  const Result<const Prepared*> prepared =
      prepare(request, direct.value().in_place, {direct.value().mode, false});
  if (!prepared.ok()) return "; in registered memory: " + std::string(prepared.status().message());
  const plan::Plan& plan = prepared.value()->plan;
  return "; in registered memory direct, also in graphs, " +
         text_of(plan, rank_->count(plan, false, 0, false));
}

}  // namespace tutti::comm
