#include "src/comm/device_calls.h"

#include <algorithm>
#include <utility>

namespace tutti::comm {
namespace {

using schedule::Collective;

/// Every dependence between ranks costs a stream a hand-over of 10 us, and there is no scratch
/// memory on devices: so of each collective the algorithm with the shortest chain that needs none.
std::vector<schedule::Algorithm> shortest_of(std::span<const schedule::Algorithm> algorithms,
                                             int ranks) {
  const schedule::Parameters parameters{.ranks = ranks};
  const auto depth = [&](const schedule::Algorithm& one) { return one.cost(parameters).depth; };
  std::vector<schedule::Algorithm> shortest;
  for (const schedule::Algorithm& algorithm : algorithms) {
    const bool copies = !schedule::reduces(algorithm.collective);
    if (!copies || algorithm.cost(parameters).scratch.num > 0) continue;
    const auto known = std::find_if(shortest.begin(), shortest.end(), [&](const auto& one) {
      return one.collective == algorithm.collective;
    });
    if (known == shortest.end()) {
      shortest.push_back(algorithm);
    } else if (depth(algorithm) < depth(*known)) {
      *known = algorithm;
    }
  }
  for (schedule::Algorithm& algorithm : shortest) algorithm.max_lanes = 1;
  return shortest;
}

/// Frames nearly as long as a region, which also holds what pads their blocks; nothing in cells.
plan::Tuning tuning_for(uint64_t region_bytes) {
  plan::Tuning tuning;
  tuning.inline_bytes = 0;
  tuning.region_bytes = region_bytes;
  tuning.frame_bytes = region_bytes - region_bytes / 16;
  tuning.pipeline_bytes = tuning.pipeline_region_bytes = ~uint64_t{0};
  tuning.long_pipeline_bytes = ~uint64_t{0};
  tuning.streaming_store_bytes = tuning.pipeline_streaming_store_bytes = ~uint64_t{0};
  return tuning;
}

/// A user's choice of an algorithm is for the host's lanes.
Request with_any_algorithm(const Request& request, const CallOptions& options, Extras& extras) {
  if (request.extras != nullptr) extras = *request.extras;
  extras.options = options;
  extras.options->algorithm.clear();
  Request any = request;
  any.extras = &extras;
  return any;
}

}  // namespace

Result<std::unique_ptr<DeviceCalls>> DeviceCalls::open(exec::Device& device,
                                                       exec::DeviceRankOptions options,
                                                       PlannerOptions planning) {
  Result<std::unique_ptr<exec::DeviceRank>> rank = device.open(std::move(options));
  if (!rank.ok()) {
    if (rank.status().code() != Code::kUnsupported) return rank.status();
    return std::make_unique<DeviceCalls>(rank.status());
  }
  std::vector<schedule::Algorithm> algorithms =
      shortest_of(planning.algorithms, planning.group->ranks());
  return std::unique_ptr<DeviceCalls>(
      new DeviceCalls(std::move(rank).value(), std::move(algorithms), std::move(planning)));
}

DeviceCalls::DeviceCalls(std::unique_ptr<exec::DeviceRank> rank,
                         std::vector<schedule::Algorithm> algorithms, PlannerOptions planning)
    : rank_(std::move(rank)), algorithms_(std::move(algorithms)) {
  planning.algorithms = algorithms_;
  planning.tuning = tuning_for(rank_->region_bytes());
  planning.forced = {};
  planning.calls = nullptr;
  planning.engine = plan::Engine::kDevice;
  planner_ = std::make_unique<Planner>(std::move(planning));
}

bool DeviceCalls::may_take(const Request& request) {
  return request.counts == nullptr && !schedule::reduces(request.collective) &&
         request.collective != Collective::kBarrier;
}

bool DeviceCalls::takes(const Request& request) const {
  return rank_ != nullptr && may_take(request) &&
         std::any_of(algorithms_.begin(), algorithms_.end(), [&](const auto& algorithm) {
           return algorithm.collective == request.collective;
         });
}

Result<const Prepared*> DeviceCalls::prepare(const Request& request, bool in_place) {
  Extras extras;
  const Request any = with_any_algorithm(request, planner_->options_of(request.extras), extras);
  return planner_->prepare(any, in_place, {});
}

Status DeviceCalls::enqueue(const Request& request, bool in_place, const exec::StreamPlace& where,
                            uint64_t deadline_ns, std::function<void(const Status&)> over) {
  const Result<const Prepared*> prepared = prepare(request, in_place);
  if (!prepared.ok()) return prepared.status();
  const Prepared& ready = *prepared.value();
  exec::Call call;
  call.send = request.send;
  call.recv = request.recv;
  call.signature = ready.signature;
  call.deadline_ns = deadline_ns;
  call.what = name_of(request);
  return rank_->enqueue({where, &ready.plan, call, ready.described, std::move(over)});
}

std::string DeviceCalls::explain(const Request& request, bool in_place) {
  if (!refusal_.ok()) {
    return "on device memory: by the host, since " + std::string(refusal_.message());
  }
  if (!takes(request)) return "on device memory: by the host, since copy engines do not compute";
  const Result<const Prepared*> prepared = prepare(request, in_place);
  if (!prepared.ok()) return "on device memory: " + std::string(prepared.status().message());
  const plan::Plan& plan = prepared.value()->plan;
  const exec::DeviceCounts counts = rank_->count(plan);
  return "on device memory: by copy engines, " + plan.algorithm + ", " +
         std::to_string(plan.slices) + (plan.slices == 1 ? " slice" : " slices") + ", " +
         std::to_string(counts.copies) + " copies in " + std::to_string(counts.batches) +
         " batches, " + std::to_string(counts.operations) + " waits and writes in " +
         std::to_string(counts.groups) + " groups, 0 kernels";
}

}  // namespace tutti::comm
