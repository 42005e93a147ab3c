#include "src/comm/kernel_calls.h"

#include <algorithm>
#include <utility>

#include "src/comm/device_texts.h"

namespace tutti::comm {
namespace {

using schedule::Collective;

constexpr uint32_t kMostRounds = 2;

/// Buffers that lie nowhere, apart or as those of a call in place do.
exec::Call buffers_of(const schedule::Shape& shape, int rank, uint64_t part_bytes, bool in_place) {
  constexpr uint64_t kApart = uint64_t{1} << 40;
  uint64_t send = kApart, recv = 2 * kApart;
  if (in_place) {
    const schedule::Traits& traits = schedule::traits_of(shape.collective);
    send = recv;
    const uint64_t own = static_cast<uint64_t>(rank) * part_bytes;
    if (traits.nests(schedule::Space::kInput)) send += own;
    if (traits.nests(schedule::Space::kOutput)) recv += own;
  }
  exec::Call call;
  call.send = reinterpret_cast<const void*>(send);
  call.recv = reinterpret_cast<void*>(recv);
  return call;
}

/// In the signatures of calls that one kernel runs.
constexpr uint32_t kFusedMark = 0x5bd1e994u;  // even: the lowest bit is set in every signature

}  // namespace

std::vector<schedule::Algorithm> kernel_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                   int ranks) {
  const schedule::Parameters parameters{.ranks = ranks};
  std::vector<schedule::Algorithm> taken;
  for (const schedule::Algorithm& algorithm : algorithms) {
    if (algorithm.loads != nullptr || algorithm.shape(parameters).lanes > 1) continue;
    const bool is_barrier = algorithm.collective == Collective::kBarrier;
    if (!is_barrier && algorithm.cost(parameters).depth > kMostRounds) continue;
    taken.push_back(algorithm);
    taken.back().max_lanes = 1;
  }
  return taken;
}

plan::Tuning kernel_tuning() {
  constexpr uint64_t kAnything = uint64_t{1} << 40;
  plan::Tuning tuning;
  tuning.inline_bytes = 0;
  tuning.frame_bytes = tuning.region_bytes = kAnything;
  tuning.pipeline_bytes = tuning.pipeline_region_bytes = ~uint64_t{0};
  tuning.long_pipeline_bytes = ~uint64_t{0};
  tuning.streaming_store_bytes = tuning.pipeline_streaming_store_bytes = ~uint64_t{0};
  return tuning;
}

KernelCalls::KernelCalls(const exec::DeviceRank& rank, Planner& planner, EnginePlans& streams,
                         select::DeviceWay way, CallRecorder* labels)
    : rank_(rank), planning_(planner.planning()), streams_(streams) {
  algorithms_ = kernel_algorithms(planning_.host.algorithms, planning_.group->ranks());
  PlanEngine engine;
  engine.engine = plan::Engine::kDevice;
  engine.algorithms = algorithms_;
  engine.tuning = kernel_tuning();
  engine.takes_named = false;
  engine.most_sources = static_cast<uint32_t>(planning_.group->ranks());
  engine.link = select::kernel_link_of(planning_.model.devices, way);
  engine.calls = labels;
  call_ns_ = select::kernel_call_ns(planning_.model.devices);
  plans_ = &planner.add(std::move(engine));
}

Status KernelCalls::objection(const Request& request, EngineWish wish) {
  if (!leaves_choice(wish) && wish != EngineWish::kKernel) {
    return Status::unsupported("the engine is another one");
  }
  if (!rank_.fuses().ok()) return rank_.fuses();
  if (request.counts != nullptr) return Status::unsupported("each rank has a count of its own");
  const bool deterministic = plans_->options_of(request.extras).deterministic;
  const Key key{request.collective, request.type, request.op,   request.count,
                request.root,       wish,         deterministic};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  constexpr size_t kMostKnown = 1 << 12;
  if (known_.size() >= kMostKnown) known_.clear();
  return known_.emplace(key, decide(request, wish)).first->second;
}

Result<WholeCall> KernelCalls::take(const Request& request, bool in_place) {
  const Result<const Prepared*> prepared = prepare(request, in_place);
  if (!prepared.ok()) return prepared.status();
  const Prepared& ready = *prepared.value();
  return WholeCall{&ready.plan, ready.signature ^ kFusedMark, ready.described, ready.label};
}

std::string KernelCalls::explain(const Request& request, bool in_place) {
  const Result<const Prepared*> prepared = prepare(request, in_place);
  if (!prepared.ok()) return std::string(prepared.status().message());
  const plan::Plan& plan = prepared.value()->plan;
  const exec::DeviceCounts counts = rank_.count_fused(plan);
  return "by one kernel that waits, " + plan.algorithm + ", " +
         number_of(counts.kernels, "kernel") + " of " +
         number_of(counts.most_ctas, "thread block") + " (" + std::to_string(counts.pushed_bytes) +
         " bytes pushed to peers, " + std::to_string(counts.folded_bytes) +
         " bytes folded); in graphs the same, one node";
}

// By what is equal on all ranks: a plan of this rank's names algorithm and bytes of a place. Of a
// reduce the root alone folds, and has the scratch memory, so what these forbid is asked of all
// ranks' plans.
Status KernelCalls::decide(const Request& request, EngineWish wish) {
  const Result<const Prepared*> prepared = prepare(request, false);
  if (!prepared.ok()) return prepared.status();
  const plan::Plan& plan = prepared.value()->plan;
  const auto algorithm = std::find_if(algorithms_.begin(), algorithms_.end(), [&](const auto& one) {
    return one.collective == request.collective && one.name == plan.algorithm;
  });
  if (algorithm == algorithms_.end()) return Status::unsupported("it has several lanes");
  const bool rooted = schedule::traits_of(request.collective).rooted();
  const bool deterministic = plans_->options_of(request.extras).deterministic;
  const Result<NeedOfAll> need =
      need_of(*algorithm, rooted ? request.root : 0,
              deterministic ? schedule::Fold::kTree : schedule::Fold::kList);
  if (!need.ok()) return need.status();
  const exec::Call anywhere =
      buffers_of(plan.match->shape, planning_.rank, request.count * plan.element_bytes, false);
  const Result<exec::FusedNeed> own = rank_.need_fused(plan, planning_.rank, anywhere);
  if (!own.ok()) return own.status();
  const uint64_t bytes = need.value().places * own.value().place_bytes;
  if (bytes > rank_.mailbox_bytes()) {
    return Status::unsupported("it needs mailboxes of " + std::to_string(bytes) +
                               " bytes, which have " + std::to_string(rank_.mailbox_bytes()));
  }
  const plan::BindRequest bound{request.count, request.type};
  const plan::Plan hungriest = plan::bind(*need.value().hungriest, bound, kernel_tuning());
  if (hungriest.scratch_bytes > rank_.ring_shape().scratch_bytes) {
    return Status::unsupported("it needs more scratch memory than there is");
  }
  return wish == EngineWish::kKernel ? Status() : compare_prices(request);
}

Result<double> KernelCalls::predict_ns(const Request& request) {
  Result<double> messages = plans_->predict_ns(request, false);
  if (messages.ok()) messages.value() += call_ns_;
  return messages;
}

// No stream runs a barrier.
Status KernelCalls::compare_prices(const Request& request) {
  if (request.collective == Collective::kBarrier) return {};
  const Result<double> mine = predict_ns(request);
  if (!mine.ok()) return mine.status();
  const Result<double> theirs = streams_.predict_ns(request, false);
  if (!theirs.ok()) return {};
  if (mine.value() <= theirs.value()) return {};
  return Status::unsupported("by the model it takes " + in_us(mine.value()) + " us, by streams " +
                             in_us(theirs.value()));
}

Result<KernelCalls::NeedOfAll> KernelCalls::need_of(const schedule::Algorithm& algorithm, int root,
                                                    schedule::Fold fold) {
  const std::tuple key{
      std::string(schedule::name_of(algorithm.collective)) + "/" + std::string(algorithm.name),
      root, fold};
  const auto found = needs_.find(key);
  if (found != needs_.end()) return found->second;
  Result<NeedOfAll> need = need_placed(algorithm, root, fold, false);
  if (need.ok() && algorithm.in_place) {
    const Result<NeedOfAll> other = need_placed(algorithm, root, fold, true);
    if (other.ok()) {
      need.value().places = std::max(need.value().places, other.value().places);
      if (other.value().scratch_bytes > need.value().scratch_bytes) {
        need.value().hungriest = other.value().hungriest;
      }
    } else {
      need = other.status();
    }
  }
  return needs_.emplace(key, std::move(need)).first->second;
}

// Any count that gives every rank a share says the same.
Result<KernelCalls::NeedOfAll> KernelCalls::need_placed(const schedule::Algorithm& algorithm,
                                                        int root, schedule::Fold fold,
                                                        bool in_place) const {
  constexpr uint64_t kElements = 64;
  const int ranks = planning_.group->ranks();
  plan::MatchRequest wanted;
  wanted.algorithm = &algorithm;
  wanted.parameters = {.ranks = ranks, .root = root, .fold = fold};
  wanted.group = planning_.group;
  wanted.in_place = wanted.hazards_in_place = in_place;
  const auto host = plan::HostMatch::make(wanted);
  if (!host.ok()) return host.status();
  NeedOfAll most;
  for (int rank = 0; rank < ranks; ++rank) {
    const Result<plan::Match> match = host.value()->of(rank);
    if (!match.ok()) return match.status();
    plan::BindRequest request;
    request.count = kElements * static_cast<uint64_t>(ranks);
    plan::Plan plan = plan::bind(match.value(), request, kernel_tuning());
    plan.match = &match.value();
    plan.algorithm = algorithm.name;
    for (plan::LanePlan& lane : plan.lanes) lane.engine = plan::Engine::kDevice;
    const exec::Call buffers =
        buffers_of(match.value().shape, rank, request.count * plan.element_bytes, in_place);
    const Result<exec::FusedNeed> need = rank_.need_fused(plan, rank, buffers);
    if (!need.ok()) return need.status();
    most.places = std::max(most.places, need.value().places);
    if (most.hungriest != nullptr && plan.scratch_bytes <= most.scratch_bytes) continue;
    most.scratch_bytes = plan.scratch_bytes;
    most.hungriest = std::make_shared<const plan::Match>(match.value());
  }
  return most;
}

}  // namespace tutti::comm
